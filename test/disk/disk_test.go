// Package disk_test damages the data directories of running cells. A replica
// recovers, or refuses to start and names the cure, while the others continue.
// After the cure of docs/operations.md, it has the same state as its peers.
package disk_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

func TestMain(m *testing.M) {
	testrun.Wait(8)
	os.Exit(testrun.Main(m.Run))
}

// settings make frequent snapshots, cut the log behind them, and keep a master
// in office on a busy machine.
var settings = []string{"--snapshot-threshold=50", "--snapshot-interval=100ms", "--trailing-logs=20", "--heartbeat-timeout=2s"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// work opens n sessions of the given name, each with a lock.
func work(t *testing.T, r *cell.Replica, name string, n int) {
	t.Helper()
	at := []*cell.Replica{r}
	for i := range n {
		req := lockapi.NewSessionRequest()
		req.Name, req.TTLMS = fmt.Sprintf("%s-%d", name, i), (time.Hour).Milliseconds()
		var s lockapi.Session
		_, err := cell.Insist(cell.Bounded(t), at, http.MethodPost, lockapi.RouteSessions, req, &s)
		must(t, err)
		_, err = cell.Insist(cell.Bounded(t), at, http.MethodPut, fmt.Sprintf("%s/%s/%d", lockapi.RouteLocks, name, i), map[string]string{"session": s.ID}, nil)
		must(t, err)
	}
}

var checksumSeries = regexp.MustCompile(`(?m)^stout_state_checksum (\S+)$(?s:.*)^stout_state_checksum_index (\S+)$`)

// checksum returns the latest sum of a replica's state; index 0 before the
// first.
func checksum(ctx context.Context, r *cell.Replica) (index uint64, sum string, err error) {
	_, page, err := cell.Exchange(ctx, nil, http.MethodGet, r.URL+lockapi.RouteMetrics, nil, nil)
	if err != nil {
		return 0, "", err
	}
	m := checksumSeries.FindSubmatch(page)
	if m == nil {
		return 0, "", nil // it is not a member yet
	}
	number, err := strconv.ParseFloat(string(m[2]), 64)
	return uint64(number), string(m[1]), err
}

// applied returns the index of the last entry that a replica has applied.
func applied(ctx context.Context, r *cell.Replica) (uint64, error) {
	var own lockapi.Replica
	_, err := r.Call(ctx, http.MethodGet, lockapi.RouteReplica, nil, &own)
	return own.AppliedIndex, err
}

// follow waits until a replica has applied what the master has applied: a
// majority might commit without it.
func follow(t *testing.T, r, master *cell.Replica) {
	t.Helper()
	want, err := applied(cell.Bounded(t), master)
	must(t, err)
	must(t, cell.Wait(cell.Bounded(t), r.ID+" has followed", func(ctx context.Context) error {
		if have, err := applied(ctx, r); err != nil || have < want {
			return fmt.Errorf("it has applied entry %d of %d: %w", have, want, err)
		}
		return nil
	}))
}

// agree waits until every running replica has a sum of its state at one new
// entry, and compares the sums.
func agree(t *testing.T, c *cell.Cell, master *cell.Replica) {
	t.Helper()
	from, err := applied(cell.Bounded(t), master)
	must(t, err)
	var sums map[string]string
	must(t, cell.Wait(cell.Bounded(t), "all replicas have summed the same entry", func(ctx context.Context) error {
		sums = map[string]string{}
		want := uint64(0)
		for _, r := range c.Replicas() {
			if !r.Running() {
				continue
			}
			index, sum, err := checksum(ctx, r)
			if want = max(want, index); err != nil || index < from || index < want {
				return fmt.Errorf("%s has summed entry %d of %d: %w", r.ID, index, max(want, from), err)
			}
			sums[r.ID] = fmt.Sprintf("%d %s", index, sum)
		}
		return nil
	}))
	for id, sum := range sums {
		if sum != sums[master.ID] {
			t.Errorf("%s has sum %s, the master %s has sum %s", id, sum, master.ID, sums[master.ID])
		}
	}
}

// refused starts a replica that must end by itself with exit code 1, and
// returns its last log lines.
func refused(t *testing.T, r *cell.Replica) string {
	t.Helper()
	must(t, r.Start())
	select {
	case <-r.Exited():
	case <-cell.Bounded(t).Done():
		t.Fatalf("%s continues with a damaged directory", r.ID)
	}
	if code, words := r.ExitState(); code != 1 {
		t.Errorf("%s: %s; want exit code 1\n%s", r.ID, words, r.LogTail(5))
	}
	return r.LogTail(1)
}

// cure follows docs/operations.md for a replica with a damaged directory: the
// replica gets an empty directory, which replaces the old one as a member.
func cure(t *testing.T, c *cell.Cell, r *cell.Replica) {
	t.Helper()
	if r.Running() {
		t.Fatalf("%s runs", r.ID)
	}
	must(t, os.Rename(r.DataDir, filepath.Join(t.TempDir(), "kept")))
	must(t, r.Start())
	must(t, c.Admit(cell.Bounded(t), r))
	c.Ready(t)
}

// snapshots returns the state files of a replica's finished snapshots.
func snapshots(t *testing.T, r *cell.Replica) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(r.DataDir, "snapshots", "*[0-9]", "state.bin"))
	must(t, err)
	return names
}

func logFile(r *cell.Replica) string { return filepath.Join(r.DataDir, "raft.db") }

func overwrite(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, change(raw), 0o600))
}

// damage is done to the directory of a replica that is down.
type damage struct {
	name string
	do   func(*testing.T, *cell.Replica)
	want string // in the message
}

func file(name string, change func([]byte) []byte) func(*testing.T, *cell.Replica) {
	return func(t *testing.T, r *cell.Replica) { overwrite(t, filepath.Join(r.DataDir, name), change) }
}

func gone(name string) func(*testing.T, *cell.Replica) {
	return func(t *testing.T, r *cell.Replica) { must(t, os.Remove(filepath.Join(r.DataDir, name))) }
}

// flipLate flips a bit of each entry about the latest locks, including old
// copies.
func flipLate(raw []byte) []byte {
	for at := bytes.Index(raw, []byte("/late/")); at >= 0; at = bytes.Index(raw, []byte("/late/")) {
		raw[at+1] ^= 1
	}
	return raw
}

// damages apply to every log store, damagesOf to a particular one.
var (
	damages = []damage{
		// Less than the four pages that bbolt begins with. Later pages may not
		// be in use yet, because entries reach the file only after the
		// write-ahead log.
		{"the log is cut", file("raft.db", func(raw []byte) []byte { return raw[:12000] }), "raft.db is damaged"},
		{"a meta page", file("raft.db", func(raw []byte) []byte { clear(raw[:512]); return raw }), "page 0 is not a meta page"},
		{"the log is gone", gone("raft.db"), "has lost its log"},
		{"all snapshots", func(t *testing.T, r *cell.Replica) {
			all := snapshots(t, r)
			if len(all) == 0 {
				t.Fatal("there is no snapshot to damage")
			}
			for _, name := range all {
				overwrite(t, name, func(raw []byte) []byte { return raw[:len(raw)-1] })
			}
		}, "a snapshot in"},
		{"the identity", file("replica.json", func(raw []byte) []byte { return raw[:len(raw)/2] }), "replica.json is damaged"},
	}
	damagesOf = map[string][]damage{
		"bolt": {{"a bit of an entry", file("raft.db", flipLate), "raft.db is damaged"}},
		"wal": {
			{"a bit of the write-ahead log", file("raft.wal", func(raw []byte) []byte { raw[20] ^= 1; return raw }), "raft.wal, which is damaged"},
			{"the write-ahead log is cut", file("raft.wal", func(raw []byte) []byte { return raw[:len(raw)/3] }), "raft.wal, which is damaged"},
			{"the write-ahead log is gone", gone("raft.wal"), "raft.wal, which is lost"},
		},
	}
)

// TestDamagedReplicaIsRefusedAndCured: each irreparable damage is found at the
// start; the message names the file and the cure; the others serve. After the
// cure the replica has their state.
func TestDamagedReplicaIsRefusedAndCured(t *testing.T) {
	t.Parallel()
	for store, own := range damagesOf {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := cell.New(t, cell.Options{Args: append([]string{"--log-store=" + store}, settings...)})
			work(t, c.Ready(t), "needle", 40)
			for i, d := range append(own, damages...) {
				t.Run(d.name, func(t *testing.T) { refusedAndCured(t, c, i, d) })
			}
		})
	}
}

func refusedAndCured(t *testing.T, c *cell.Cell, i int, d damage) {
	master := c.Ready(t)
	work(t, master, fmt.Sprintf("late/%d", i), 3)
	damaged := c.Others(master)[0]
	follow(t, damaged, master)
	must(t, damaged.Kill())
	d.do(t, damaged)
	output := refused(t, damaged)
	for _, want := range []string{d.want, damaged.DataDir, "docs/operations.md"} {
		if !strings.Contains(output, want) {
			t.Errorf("the message is %q; want %q in it", output, want)
		}
	}
	work(t, master, fmt.Sprintf("without/%d", i), 3)
	cure(t, c, damaged)
	agree(t, c, c.Ready(t))
}

// TestDamagedSnapshotIsMadeUpFor: if the log reaches back to an earlier
// snapshot, the replica starts from it and logs the damage.
func TestDamagedSnapshotIsMadeUpFor(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: []string{"--snapshot-threshold=30", "--snapshot-interval=100ms", "--trailing-logs=100000"}})
	master := c.Ready(t)
	r := c.Others(master)[0]
	for i := 0; len(snapshots(t, r)) < 2; i++ {
		work(t, master, fmt.Sprintf("w%d", i), 10)
	}
	must(t, r.Terminate(cell.Bounded(t)))
	latest, at := "", time.Time{}
	for _, name := range snapshots(t, r) {
		if info, err := os.Stat(name); err == nil && info.ModTime().After(at) {
			latest, at = name, info.ModTime()
		}
	}
	overwrite(t, latest, func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw })
	must(t, r.Start())
	agree(t, c, c.Ready(t))
	if output := r.LogTail(200); !strings.Contains(output, "a snapshot is damaged") {
		t.Errorf("it does not log the damaged snapshot:\n%s", output)
	}
}
