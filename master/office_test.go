package master

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

const drift = 0.01

// TestSuccessorWaitsOutAnOpenOffice: r + L × (1 + drift) from when the successor
// last stored a batch of the earlier term, with the lease that the log carried.
// It hands its opening over right after that, on its own clock. If that clock is
// fast, timers wake it late.
func TestSuccessorWaitsOutAnOpenOffice(t *testing.T) {
	for _, tc := range []struct {
		term time.Duration // of the earlier master
		rate float64       // of the successor's clock
	}{{leaseTerm, 1 - drift}, {leaseTerm, 1}, {leaseTerm, 1 + drift}, {9 * time.Second, 1}} {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			c.node("r1").master.opts.LeaseTerm = tc.term
			c.office("r1")
			pass(10 * time.Second)
			c.cutOff("r1", true)
			n := c.node("r2")
			over := n.Promises().Last() + tc.term*101/100
			c.office("r2")
			_, handed := n.Sent()
			if late := handed[0] - over; late <= 0 || late > time.Microsecond && tc.rate <= 1 || late > leaseTerm/40 {
				t.Errorf("%+v: the opening was handed over %v after the earlier lease, want it later, and at once", tc, late)
			}
			if e := openOffice(t, n).epoch; n.clock()-over > leaseTerm/40+5*c.delay || e != 2 {
				t.Errorf("%+v: in office %v after the earlier lease, in epoch %d", tc, n.clock()-over, e)
			}
		}, 1, tc.rate)
	}
}

// TestSuccessorDoesNotWaitAfterAClosing of the office, by a transfer or as the
// replica stops. Nor does the first master of a cell.
func TestSuccessorDoesNotWaitAfterAClosing(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.elect("r1")
		c.inOffice(n, 5*c.delay)
		pass(time.Second)
		if to, err := transfer(t, n.master, "r3"); err != nil || to.Master != "r3" {
			t.Fatalf("transfer: %+v, %v", to, err)
		}
		n = c.node("r3")
		c.inOffice(n, 10*c.delay)
		pass(time.Second)
		must(t, n.master.Close(t.Context()))
		c.inOffice(c.node(c.node("r2").Leader()), 15*c.delay)
	})
}

// TestOwnTermsBatchesDoNotCount: an attempt with an unknown outcome, repeated
// within the term, does not delay the opening.
func TestOwnTermsBatchesDoNotCount(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		pass(time.Second)
		c.cutOff("r1", true)
		n := c.elect("r2")
		before := n.PromisedBefore(n.term())
		c.inOffice(n, time.Minute)
		pass(5 * time.Second)
		if after := n.PromisedBefore(n.term()); after != before {
			t.Errorf("r moved from %v to %v by the term's own batches", before, after)
		}
	})
}

// TestLeaseCountsFromTheProposal and not from the answer, which arrives late
// here.
func TestLeaseCountsFromTheProposal(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		c.setDelay(600 * time.Millisecond)
		n := c.elect("r1")
		c.inOffice(n, time.Minute)
		v := openOffice(t, n).lease.View(n.clock())
		most := leaseTerm*99/100 - 600*time.Millisecond
		if !v.Held || v.Remaining > most {
			t.Errorf("lease %+v right after an entry that took 600ms, want at most %v left", v, most)
		}
		for range 200 { // the same holds for each renewal
			pass(20 * time.Millisecond)
			if v := openOffice(t, n).lease.View(n.clock()); v.Remaining > most {
				t.Fatalf("lease %+v, want at most %v left", v, most)
			}
		}
	})
}

// TestIdleMasterKeepsItsOffice, however long its lease and slow its messages, by
// an empty batch every quarter of the term.
func TestIdleMasterKeepsItsOffice(t *testing.T) {
	for _, tc := range []struct{ term, delay time.Duration }{
		{leaseTerm, fakeDelay},
		{leaseTerm, leaseTerm * 2 / 5}, // the first renewal must follow the opening at once
		{time.Minute, fakeDelay},       // a quarter of the term exceeds the limit for a stalled log
	} {
		inCell(t, 1, Options{Drift: drift, LeaseTerm: tc.term}, func(t *testing.T, c *fakeCell) {
			c.setDelay(tc.delay)
			n := c.office("r1")
			o, before, terms := openOffice(t, n), len(n.sent()), testrun.Times(3, 10)
			for range 100 * terms {
				pass(tc.term / 100)
				if !o.lease.Valid(n.clock()) {
					t.Fatalf("term %v, messages of %v: the lease lapsed %v after the opening", tc.term, tc.delay, n.clock()-o.sessions.opened)
				}
			}
			if n.State().Epoch != o.epoch {
				t.Errorf("term %v: epoch %d after %d", tc.term, n.State().Epoch, o.epoch)
			}
			sent := len(n.sent()) - before
			if want := 4 * terms; tc.term == leaseTerm && tc.delay == fakeDelay && (sent < want-2 || sent > want+1) {
				t.Errorf("%d batches in %d terms, want %d", sent, terms, want)
			}
		})
	}
}

// TestNeverTwoLeases attacks the invariant with partitions and changes of
// master at all phases of a renewal. Clocks are at the limits of the drift, and
// some terms are not whole milliseconds. inCell checks the leases.
func TestNeverTwoLeases(t *testing.T) {
	for _, tc := range []struct {
		name  string
		drift float64
		term  time.Duration
		rates []float64
	}{
		{"true clocks, no drift", 0, leaseTerm, nil},
		{"true clocks, a term of no whole milliseconds", 0, 500*time.Millisecond + 999*time.Microsecond, nil},
		{"slow master, fast successors", drift, leaseTerm, []float64{0.9901, 1.0099, 1.0099}},
		{"fast master, slow successors", drift, leaseTerm, []float64{1.0099, 0.9901, 0.9901}},
		{"wide drift", 0.2, leaseTerm, []float64{0.84, 1.19, 0.84}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: lease.Drift(tc.drift), LeaseTerm: tc.term}, func(t *testing.T, c *fakeCell) {
				c.setDelay(50 * time.Microsecond) // messages take little of the time
				ids := []string{"r1", "r2", "r3"}
				for i, phase := range testrun.Sample(t, 8, 24) {
					old, next := ids[i%3], ids[(i+1)%3]
					n := c.office(old)
					pass(tc.term + time.Duration(phase)*37357*time.Microsecond)
					c.cutOff(old, true) // the old master still considers itself master
					c.elect(next)
					c.inOffice(c.node(next), time.Minute)
					pass(tc.term)
					if o := n.master.inOffice(); o != nil && o.lease.Valid(n.clock()) {
						t.Errorf("round %d: the old master's lease outlives a term of its successor", i)
					}
					c.cutOff(old, false)
					pass(10 * c.delay)
				}
			}, tc.rates...)
		})
	}
}

// TestOfficeEndsWithoutMajority within its bound, so that no call hangs.
func TestOfficeEndsWithoutMajority(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		c.cutOff("r1", true)
		began := time.Now()
		_, err := n.master.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
		code(t, err, lockapi.CodeOutcomeUnknown)
		if took := time.Since(began); took > stalledAfter+time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

// TestEntryAdmittedBeforeTheLossNeverTakesEffect, even if mastership returns to
// the same replica.
func TestEntryAdmittedBeforeTheLossNeverTakesEffect(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		late := state.Batch{Epoch: openOffice(t, n).epoch, LeaseMS: 1000, Commands: []state.Command{
			{Operation: &state.OpenSession{Session: "late", TTLMS: 1000}},
		}}
		c.office("r2")
		c.office("r1")
		out, err := n.Submit(late)()
		if err != nil || out.Accepted {
			t.Errorf("a batch of epoch 1 in epoch %d: %+v, %v; want it refused", out.Epoch, out, err)
		}
		if _, ok := n.State().Session("late"); ok {
			t.Error("it took effect")
		}
	})
}

// TestRefusedBatchEndsTheOffice: a replica with a refused batch is no longer
// the master.
func TestRefusedBatchEndsTheOffice(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		o := openOffice(t, n)
		pass(5 * fakeDelay) // the office has recorded the members
		out, err := n.Submit(state.Batch{LeaseMS: 1000, Commands: []state.Command{
			{Operation: &state.OpenOffice{Master: "r9", Term: n.term()}},
		}})()
		if err != nil || !out.Accepted {
			t.Fatal(out, err)
		}
		_, err = m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
		code(t, err, lockapi.CodeNoMaster)
		<-o.done
		if o.lease.Valid(n.clock()) {
			t.Error("the lease outlived the office")
		}
		if again := c.inOffice(n, time.Minute); again == o || again.epoch != 3 {
			t.Errorf("epoch %d, want a new office in epoch 3", again.epoch)
		}
	})
}

// TestLostLeadershipLeavesTheOutcomeUnknown, whether the next leader keeps the
// entry or drops it; a kept entry of the old epoch takes effect once.
func TestLostLeadershipLeavesTheOutcomeUnknown(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(map[bool]string{true: "kept", false: "dropped"}[kept], func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				n := c.office("r1")
				if !kept {
					c.cutOff("r1", true)
				}
				errs := make(chan error, 1)
				go func() {
					_, err := n.master.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest(), Key: "key"})
					errs <- err
				}()
				pass(c.delay * 3 / 4) // stored by the reachable replicas, not committed
				c.cutOff("r1", true)
				next := c.elect("r2")
				c.depose("r1")
				code(t, <-errs, lockapi.CodeOutcomeUnknown)
				c.inOffice(next, time.Minute)
				if got := next.State().SessionCount(); got != map[bool]int{true: 1, false: 0}[kept] {
					t.Errorf("%d sessions under the successor", got)
				}
				first, err := next.master.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest(), Key: "key"})
				again, err2 := next.master.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest(), Key: "key"})
				if err != nil || err2 != nil || first.ID != again.ID || next.State().SessionCount() != 1 {
					t.Errorf("sent again: %v %v, %v %v", first.ID, again.ID, err, err2)
				}
			})
		})
	}
}

// TestResignDropsTheLeaseBeforeTheClosingEntry, and that entry is its last.
func TestResignDropsTheLeaseBeforeTheClosingEntry(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		o := openOffice(t, n)
		newSession(t, n.master, time.Minute)
		var closing sync.WaitGroup
		closing.Go(func() { o.resign(context.Background(), time.Minute, errors.New("test")) })
		pass(c.delay / 4) // the closing entry is under way
		if o.lease.Valid(n.clock()) {
			t.Error("the lease runs while the closing entry is under way")
		}
		closing.Wait()
		if n.State().Office.Open && n.State().Epoch == o.epoch {
			t.Error("the office is open after the closing entry")
		}
		pass(time.Second)
		// The same replica still leads: it opens a new office, and
		// never resumes the closed one.
		if next := c.inOffice(n, time.Second); next.epoch != o.epoch+1 {
			t.Errorf("epoch %d after epoch %d was closed", next.epoch, o.epoch)
		}
		batches := n.sent()
		for i, b := range batches {
			if closes(b) {
				for _, later := range batches[i+1:] {
					if later.Epoch == o.epoch && len(later.Commands) > 0 {
						t.Errorf("commands of the closed office behind its closing entry: %+v", later)
					}
				}
			}
		}
	})
}

func TestFailedTransferOpensANewOffice(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		id := newSession(t, n.master, time.Minute)
		n.RefuseTransfer(errors.New("the target does not answer"))
		code(t, second(transfer(t, n.master, "r2")), lockapi.CodeOutcomeUnknown)
		if o := c.inOffice(n, time.Second); o.epoch != 2 {
			t.Errorf("epoch %d, want 2", o.epoch)
		}
		if k, err := keepalive1(n.master, id, 0, 0); err != nil || k.Epoch != 2 {
			t.Errorf("keepalive: %+v, %v", k, err)
		}
	})
}

// TestTransferToOneThatHasJustStarted: it answers and has contact with the
// master a moment later, and the transfer waits for it.
func TestTransferToOneThatHasJustStarted(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		c.set(func(f *fakeConf) { delete(f.at, "r3") })
		time.AfterFunc(200*time.Millisecond, func() {
			c.set(func(f *fakeConf) { f.at["r3"], f.deaf = founder("r3"), map[string]bool{"r3": true} })
		})
		time.AfterFunc(400*time.Millisecond, func() { c.set(func(f *fakeConf) { f.deaf = nil }) })
		began := time.Now()
		to, err := transfer(t, n.master, "r3")
		if took := time.Since(began); err != nil || to.Master != "r3" || took > 500*time.Millisecond {
			t.Errorf("%+v, %v after %v", to, err, took)
		}
	})
}

func TestTransferIsValidated(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		if e := code(t, second(transfer(t, n.master, "r9")), lockapi.CodeInvalidArgument); e.Field != "to" {
			t.Errorf("field %q", e.Field)
		}
		if to, err := transfer(t, n.master, "r1"); err != nil || to.Master != "r1" {
			t.Errorf("to itself: %+v, %v", to, err)
		}
		code(t, second(transfer(t, c.node("r2").master, "r3")), lockapi.CodeNoMaster)
		for says, set := range map[string]func(f *fakeConf){
			"does not answer":                 func(f *fakeConf) { delete(f.at, "r3") },
			"which is not the member's":       func(f *fakeConf) { f.at["r3"] = "00c0ffee00c0ffee" },
			"has no contact with this master": func(f *fakeConf) { f.at["r3"], f.deaf = founder("r3"), map[string]bool{"r3": true} },
		} {
			c.set(set)
			_, err := transfer(t, n.master, "r3")
			if e := code(t, err, lockapi.CodeConflict); !strings.Contains(e.Detail, `"r3" is not well`) || !strings.Contains(e.Detail, says) {
				t.Errorf("to one that is not well: %v", err)
			}
		}
		if e := openOffice(t, n).epoch; e != 1 {
			t.Errorf("epoch %d: a refused transfer changed something", e)
		}
		to, err := n.master.TransferMastership(t.Context(), &Caller{}, &lockapi.TransferMastership{})
		if err != nil || to.Master == "r1" {
			t.Errorf("to anybody: %+v, %v", to, err)
		}
	})
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		code(t, second(m.TransferMastership(t.Context(), &Caller{}, &lockapi.TransferMastership{})), lockapi.CodeConflict)
	})
}

// TestEndsOfAnOfficeStandAlone: the log's own commands join renewals, and not
// the batches that open and close an office.
func TestEndsOfAnOfficeStandAlone(t *testing.T) {
	inCell(t, 1, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		for range 100 {
			c.node("r1").Put(state.Command{Operation: &state.MarkState{}})
		}
		n := c.office("r1")
		pass(leaseTerm)
		must(t, n.master.Close(t.Context()))
		marks := 0
		for _, b := range n.sent() {
			for _, c := range b.Commands {
				switch c.Operation.(type) {
				case *state.MarkState:
					marks++
				case *state.OpenOffice, *state.CloseOffice:
					if len(b.Commands) != 1 {
						t.Errorf("%d commands with %s", len(b.Commands), state.Name(c.Operation))
					}
				}
			}
		}
		if marks < 3 {
			t.Errorf("%d marks in %v", marks, leaseTerm)
		}
	})
}

// TestCloseIsForGood: no office follows, whether the handover succeeds or
// fails.
func TestCloseIsForGood(t *testing.T) {
	for _, tc := range []struct {
		name         string
		replicas     int
		transferring bool // at the time of Close
	}{{"alone", 1, false}, {"nobody takes over", 3, false}, {"in a transfer", 3, true}} {
		t.Run(tc.name, func(t *testing.T) {
			inCell(t, tc.replicas, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				n := c.office("r1")
				n.RefuseTransfer(errors.New("the target does not answer"))
				var transfer sync.WaitGroup
				if tc.transferring {
					transfer.Go(func() {
						_, _ = n.master.TransferMastership(context.Background(), &Caller{}, &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: "r2"}})
					})
					pass(c.delay / 2)
				}
				must(t, n.master.Close(t.Context()))
				transfer.Wait()
				if n.master.mayOpen() || n.State().Office.Open || n.State().Epoch != 1 {
					t.Errorf("may open an office: %v; the log's: %+v", n.master.mayOpen(), n.State().Office)
				}
			})
		})
	}
}

// closes reports whether a batch closes the office.
func closes(b state.Batch) bool {
	if len(b.Commands) == 0 {
		return false
	}
	_, closing := b.Commands[len(b.Commands)-1].Operation.(*state.CloseOffice)
	return closing
}

// TestLeaseBoundsAgree: the state enforces the same bound that every replica
// waits out at worst.
func TestLeaseBoundsAgree(t *testing.T) {
	if lease.MaxTerm != state.MaxLeaseMS*time.Millisecond {
		t.Errorf("lease.MaxTerm is %v, state.MaxLeaseMS is %d", lease.MaxTerm, state.MaxLeaseMS)
	}
}
