package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/test/cell"
)

// processFaults affect replicas' processes. Pauses last longer than the lease
// (1 s) and mostly longer than the clients' ttls (2 to 5 s).
var processFaults = []fault{
	{name: "kill", about: "kill -9 one replica, restart it", most: 5 * time.Second, begin: killSome(one)},
	{name: "kill-minority", about: "kill -9 as many replicas as the cell can lose, restart them", most: 5 * time.Second, size: 5, begin: killSome(minority)},
	{name: "kill-all", about: "kill -9 every replica at once, restart them", most: 2 * time.Second, begin: killSome(all)},
	{name: "pause", about: "SIGSTOP one replica, later SIGCONT", least: 1500 * time.Millisecond, most: 8 * time.Second, begin: pauseSome(one)},
	{name: "pause-majority", about: "SIGSTOP a majority, later SIGCONT", least: 1500 * time.Millisecond, most: 6 * time.Second, begin: pauseSome(majority)},
	{name: "stutter", about: "stop a replica for 10–300 ms again and again", least: 2 * time.Second, most: 6 * time.Second, begin: stutter},
	{name: "restart", about: "stop every replica cleanly and restart it, all at once or one by one", begin: restart},
	{name: "log-reader", about: "stop reading one replica's log, so that its pipe is full", least: 2 * time.Second, most: 8 * time.Second, begin: logReader},
	{name: "transfer", about: "transfer mastership, sometimes several times in a row", begin: transfer},
}

type count func(size int) int

func one(int) int           { return 1 }
func minority(size int) int { return (size - 1) / 2 }
func majority(size int) int { return size/2 + 1 }
func all(size int) int      { return size }

// each calls do for several replicas at the same time.
func each(replicas []*cell.Replica, do func(*cell.Replica) error) error {
	errs := make([]error, len(replicas))
	var running sync.WaitGroup
	for i, r := range replicas {
		running.Go(func() { errs[i] = do(r) })
	}
	running.Wait()
	return errors.Join(errs...)
}

func killSome(how count) begin {
	return func(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
		victims := n.some(ctx, r, how(len(n.Cell.Replicas())))
		err := each(victims, n.keeper.kill)
		return harm{what: strings.Join(ids(victims), ","), replicas: victims, undo: func() error { return each(victims, n.keeper.start) }}, err
	}
}

func pauseSome(how count) begin {
	return func(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
		victims := n.some(ctx, r, how(len(n.Cell.Replicas())))
		err := each(victims, n.keeper.suspend)
		return harm{what: strings.Join(ids(victims), ","), replicas: victims, undo: func() error { return each(victims, n.keeper.resume) }}, err
	}
}

func stutter(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	victim := n.any(ctx, r)
	var stuttering sync.WaitGroup
	var err error
	stuttering.Go(func() {
		for err == nil && ctx.Err() == nil {
			err = n.keeper.suspend(victim)
			cell.Pause(ctx, between(r, 10*time.Millisecond, 300*time.Millisecond))
			err = errors.Join(err, n.keeper.resume(victim))
			cell.Pause(ctx, between(r, 20*time.Millisecond, 200*time.Millisecond))
		}
	})
	return harm{what: victim.ID, replicas: []*cell.Replica{victim}, undo: func() error {
		stuttering.Wait()
		return err
	}}, nil
}

func restart(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	replicas := n.some(ctx, r, len(n.Cell.Replicas()))
	again := func(replica *cell.Replica) error {
		return errors.Join(n.keeper.terminate(replica), n.keeper.start(replica))
	}
	if r.IntN(2) == 0 {
		err := each(replicas, n.keeper.terminate)
		return harm{what: "all at once", replicas: replicas}, errors.Join(err, each(replicas, n.keeper.start))
	}
	h := harm{what: "one by one, from " + replicas[0].ID, replicas: replicas} // no replica waits for the one before it
	for _, replica := range replicas {
		if err := again(replica); err != nil {
			return h, err
		}
	}
	return h, nil
}

// transferTime bounds one transfer, which needs a master.
const transferTime = 2 * time.Second

func transfer(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	path, failed := []string(nil), true
	for range 1 + r.IntN(3) {
		to := n.Cell.Replicas()[r.IntN(len(n.Cell.Replicas()))].ID
		if n.transferTo(context.WithoutCancel(ctx), to) != nil {
			to += " (failed)" // this is allowed: the replica may be down
		} else {
			failed = false
		}
		path = append(path, to)
	}
	return harm{what: "to " + strings.Join(path, ", then "), failed: failed}, nil
}

func (n *Nemesis) transferTo(ctx context.Context, id string) error {
	c, err := client.New(n.Cell.URLs()...)
	if err != nil {
		return err
	}
	defer c.Close()
	within, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	_, err = admin.New(c).Transfer(within, id)
	return err
}

// logReader stops the reading of one replica's output. It impairs no replica.
func logReader(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	victim := n.any(ctx, r)
	victim.HoldLog()
	return harm{what: victim.ID, undo: func() error {
		victim.FreeLog()
		return nil
	}}, nil
}
