package main

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/test/crash/recorded"
)

// work is the work on the stores in one round. As in Raft, one goroutine stores
// and deletes entries and installs snapshots, and another takes snapshots and
// compacts the log. Raft writes votes from the first; here a third goroutine
// writes them, so that they meet every other operation.
type work struct {
	*stores
	disk       *recorded.Mounted
	rng        *rand.Rand
	next       uint64 // index of the next entry
	term       uint64
	floor      uint64 // entries from here on may be replaced
	settled    uint64 // snapshots may be taken up to here
	large      bool   // some entries are large
	quarantine bool   // quarantine the directory at the end

	mu       sync.Mutex // guards what follows
	snapshot uint64     // index of the latest
	failed   error
}

// newWork returns work on stores that hold h.
func newWork(s *stores, disk *recorded.Mounted, h *held, rng *rand.Rand) *work {
	w := &work{stores: s, disk: disk, rng: rng, next: h.last() + 1, snapshot: h.snapshot, large: rng.IntN(3) == 0, term: h.term() + 1}
	w.settled = (h.first() + h.last()) / 2
	w.floor = max(w.settled, h.snapshot) + 1
	if rng.IntN(5) == 0 { // replacing and compacting overlap, which Raft does not do
		w.floor = h.first()
	}
	return w
}

// do runs a recorded operation, unless an earlier one failed.
func (w *work) do(name string, apply func(*held), what func() error) {
	w.mu.Lock()
	failed := w.failed
	w.mu.Unlock()
	if failed != nil {
		return
	}
	o := &op{name, apply}
	w.disk.Mark(mark{op: o})
	if err := what(); err != nil {
		w.mu.Lock()
		w.failed = fmt.Errorf("%s: %w", name, err)
		w.mu.Unlock()
	}
	w.disk.Mark(mark{o, true})
}

// run does the whole work of a round.
func (w *work) run() error {
	if !w.Identity.Founded {
		w.found()
	}
	n := 8 + w.rng.IntN(50)
	var beside sync.WaitGroup
	for _, f := range []func(*rand.Rand){w.vote, w.tend} {
		rng := rand.New(rand.NewPCG(w.rng.Uint64(), 1))
		beside.Go(func() {
			for range n / 3 {
				f(rng)
			}
		})
	}
	for range n {
		switch what := w.rng.IntN(40); {
		case what < 5 && w.next > w.floor+1:
			w.truncate()
		case what == 5:
			w.install()
		default:
			w.store()
		}
	}
	beside.Wait()
	if w.quarantine {
		why := fmt.Sprintf("sum %d", w.rng.Uint64())
		w.do("quarantine", func(h *held) { h.quarantined = why }, func() error { return w.Quarantine(why) })
	}
	return w.failed
}

// found writes what Raft writes first, and the record that it was founded.
func (w *work) found() {
	l := raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("members")}
	w.do("found", func(h *held) {
		h.founded, h.votes["CurrentTerm"], h.entries[1] = true, "\x00\x00\x00\x00\x00\x00\x00\x01", fingerprint(&l)
	}, func() error {
		if err := w.Votes.SetUint64([]byte("CurrentTerm"), 1); err != nil {
			return err
		}
		if err := w.Logs.StoreLog(&l); err != nil {
			return err
		}
		who := w.Identity
		who.Founded = true
		return w.Save(who)
	})
	w.next = 2
}

func (w *work) store() {
	var logs []*raft.Log
	for range 1 + w.rng.IntN(12) {
		size := w.rng.IntN(900)
		if w.large && w.rng.IntN(4) == 0 {
			size = w.rng.IntN(120_000)
		}
		logs = append(logs, &raft.Log{Index: w.next, Term: w.term, Data: noise(w.rng, size)})
		w.next++
	}
	w.do(fmt.Sprintf("store %d-%d", logs[0].Index, w.next-1), func(h *held) {
		for _, l := range logs {
			h.entries[l.Index] = fingerprint(l)
		}
	}, func() error { return w.Logs.StoreLogs(logs) })
}

// truncate deletes the last entries; new ones take their indexes.
func (w *work) truncate() {
	from, to := w.floor+w.rng.Uint64N(w.next-w.floor), w.next-1
	w.erase("truncate", from, to)
	w.next = from
	w.term++
}

func (w *work) erase(name string, from, to uint64) {
	w.do(fmt.Sprintf("%s %d-%d", name, from, to), func(h *held) {
		for i := range h.entries {
			if from <= i && i <= to {
				delete(h.entries, i)
			}
		}
	}, func() error { return w.Logs.DeleteRange(from, to) })
}

// install writes a snapshot from far ahead, as a leader sends it, and compacts
// the log as Raft does then.
func (w *work) install() {
	index := max(w.next, w.settled+1) + w.rng.Uint64N(40)
	w.makeSnapshot("install", w.rng, index)
	if w.rng.IntN(2) == 0 {
		w.erase("compact", 1, index)
	}
	w.next, w.floor = index+1, index+1
}

// vote writes one of the values of Raft's vote.
func (w *work) vote(rng *rand.Rand) {
	k, v := keys[rng.IntN(len(keys))], fmt.Sprintf("%08x", rng.Uint32())
	w.do("vote", func(h *held) { h.votes[k] = v }, func() error { return w.Votes.Set([]byte(k), []byte(v)) })
}

// tend takes a snapshot of settled entries, or compacts the log up to a
// snapshot.
func (w *work) tend(rng *rand.Rand) {
	w.mu.Lock()
	snapshot := w.snapshot
	w.mu.Unlock()
	switch rng.IntN(3) {
	case 0:
		if w.settled > snapshot {
			w.makeSnapshot("snapshot", rng, snapshot+1+rng.Uint64N(w.settled-snapshot))
		}
	case 1:
		if snapshot > 0 {
			w.erase("compact", 1, snapshot-min(snapshot-1, rng.Uint64N(8)))
		}
	}
}

// makeSnapshot makes a snapshot up to an index, or gives up half way.
func (w *work) makeSnapshot(name string, rng *rand.Rand, index uint64) {
	content, given := noise(rng, rng.IntN(60_000)), name == "snapshot" && rng.IntN(5) == 0
	if given {
		name = "given up"
	}
	w.do(fmt.Sprintf("%s %d", name, index), func(h *held) {
		if !given && index > h.snapshot {
			h.snapshot, h.content = index, sum(content)
		}
	}, func() error {
		sink, err := w.Snapshots.Create(1, index, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			return err
		}
		for rest := content; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(30_000))
			if _, err := sink.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if given {
			return sink.Cancel()
		}
		if err := sink.Close(); err != nil {
			return err
		}
		w.mu.Lock()
		w.snapshot = max(w.snapshot, index)
		w.mu.Unlock()
		return nil
	})
}

func noise(rng *rand.Rand, size int) []byte {
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}
