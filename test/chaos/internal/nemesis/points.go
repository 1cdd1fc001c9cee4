package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/test/cell"
)

// pointFaults stop, slow or fail a replica at the worst moments, through the
// fault points of its process.
var pointFaults = []fault{
	{name: "slow-sync", about: "each sync of one replica's disk takes 10 ms to 10 s", least: 3 * time.Second, most: 10 * time.Second, points: true, begin: slowSync},
	{name: "hung-sync", about: "no sync of one replica's disk completes", least: 2 * time.Second, most: 8 * time.Second, points: true, begin: hungSync},
	{name: "disk-full", about: "one replica's disk is full; it ends, gets space, and restarts", least: 2 * time.Second, most: 6 * time.Second, points: true, begin: diskFull},
	{name: "stopped-at", about: "stop or kill one replica at a stage of a write, an election or a snapshot", least: 500 * time.Millisecond, most: 5 * time.Second, points: true, begin: stoppedAt},
}

// orders are the current orders of the replicas' fault points.
type orders struct {
	mu   sync.Mutex
	last uint64
	of   map[string]map[uint64]string // by replica and serial number
}

// give adds an order for some points until it is withdrawn. Orders that are
// obeyed once have their serial number as argument.
func (o *orders) give(r *cell.Replica, order string, points ...string) (withdraw func() error, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	serial, text := o.last, ""
	for _, p := range points {
		text += fmt.Sprintf("%s %s %d\n", p, order, serial)
	}
	if o.of[r.ID] == nil {
		o.of[r.ID] = map[uint64]string{}
	}
	o.of[r.ID][serial] = text
	return func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.of[r.ID], serial)
		return o.write(r)
	}, o.write(r)
}

// write writes a replica's orders to its fault file. The caller holds o.mu.
func (o *orders) write(r *cell.Replica) error {
	text := ""
	for _, serial := range slices.Sorted(maps.Keys(o.of[r.ID])) {
		text += o.of[r.ID][serial]
	}
	name := r.FaultFile()
	return errors.Join(os.WriteFile(name+".new", []byte(text), 0o600), os.Rename(name+".new", name))
}

// syncing are the points before all waits for the disk.
var syncing = []string{faultpoint.DiskSync, faultpoint.StoreCommit, faultpoint.SnapshotFinish}

func slowSync(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	// Tens of milliseconds are as likely as seconds.
	d := time.Duration(float64(10*time.Millisecond) * math.Pow(1000, r.Float64())).Round(time.Millisecond)
	return n.ailing(n.any(ctx, r), d.String(), "sleep "+d.String())
}

func hungSync(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	return n.ailing(n.any(ctx, r), "", "hang")
}

// ailing makes the syncs of a replica obey an order.
func (n *Nemesis) ailing(victim *cell.Replica, how, order string) (harm, error) {
	cure := n.keeper.ail(victim)
	withdraw, err := n.orders.give(victim, order, syncing...)
	return harm{what: strings.TrimSpace(victim.ID + " " + how), replicas: []*cell.Replica{victim}, undo: func() error {
		defer cure()
		return withdraw()
	}}, err
}

// exitFault is stoutd's exit code for a disk that refuses a write; exitStart is
// the exit code of a start that this prevents.
const (
	exitFault = 74
	exitStart = 1
)

// endingTime bounds the end of a process that ends by itself.
const endingTime = 5 * time.Second

func diskFull(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	victim := n.any(ctx, r)
	n.keeper.doom(victim)
	cure := n.keeper.ail(victim)
	withdraw, err := n.orders.give(victim, "full", faultpoint.DiskWrite, faultpoint.StoreCommit, faultpoint.SnapshotWrite)
	return harm{what: victim.ID, replicas: []*cell.Replica{victim}, undo: func() error {
		defer cure()
		err := withdraw()
		return errors.Join(err, n.keeper.revive(victim, endingTime, func(code int, _ string) bool {
			return code == exitFault || code == exitStart && strings.Contains(victim.LogTail(3), "no space left on device")
		}))
	}}, err
}

// stage is a point where a process is stopped or killed, and how it gets there.
type stage struct {
	point string
	by    way
}

type way int

const (
	always     way = iota // every replica reaches it
	asMaster              // the master reaches it
	asElected             // a replica that mastership is transferred to
	asResigned            // a master that transfers it
)

var stages = []stage{
	{faultpoint.DiskWrite, always}, {faultpoint.DiskSync, always}, {faultpoint.StoreCommit, always},
	{faultpoint.EntriesStore, always}, {faultpoint.Apply, always},
	{faultpoint.SnapshotWrite, always}, {faultpoint.SnapshotFinish, always},
	{faultpoint.EntriesSend, asMaster}, {faultpoint.BatchProposed, asMaster}, {faultpoint.BatchAnswered, asMaster},
	{faultpoint.VoteAsk, asElected}, {faultpoint.VoteStore, asElected}, {faultpoint.OfficeOpened, asElected},
	{faultpoint.OfficeResigned, asResigned},
}

func stoppedAt(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	at, action := stages[r.IntN(len(stages))], "pause"
	if r.IntN(3) == 0 {
		action = "kill"
	}
	victim := n.any(ctx, r)
	if master, err := n.Cell.Master(ctx); err == nil && at.by != always {
		victim = master
		if others := n.Cell.Others(master); at.by == asElected {
			victim = others[r.IntN(len(others))]
		}
	}
	successor := victim.ID
	if at.by == asResigned {
		successor = "" // any successor
	}
	if action == "kill" {
		n.keeper.doom(victim)
	}
	withdraw, err := n.orders.give(victim, action, at.point)
	var handing sync.WaitGroup
	if at.by == asElected || at.by == asResigned {
		handing.Go(func() { _ = n.transferTo(ctx, successor) }) // this can fail, because the replica stops
	}
	what := fmt.Sprintf("%s at %s: %s", victim.ID, at.point, action)
	failed := !reached(ctx, victim)
	if failed {
		what += " (not reached)"
	}
	return harm{what: what, failed: failed, replicas: []*cell.Replica{victim}, undo: func() error {
		handing.Wait()
		err := withdraw()
		if action == "pause" {
			return errors.Join(err, n.keeper.proceed(victim))
		}
		return errors.Join(err, n.keeper.revive(victim, 100*time.Millisecond, func(_ int, words string) bool { return words == "signal: killed" }))
	}}, err
}

// reached waits until a process has stopped or ended. It returns false if ctx
// ends first.
func reached(ctx context.Context, r *cell.Replica) bool {
	for !r.Stopped() && r.Running() {
		if !cell.Pause(ctx, 10*time.Millisecond) {
			return false
		}
	}
	return true
}
