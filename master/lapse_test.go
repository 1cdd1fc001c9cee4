package master

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// TestReadAfterTheLeaseLapsedIsMadeAgain: the first answer is discarded.
func TestReadAfterTheLeaseLapsedIsMadeAgain(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		id := newSession(t, n.master, time.Minute)
		pause := true
		hook := func() {
			if !pause || !onStack("(*Master).GetLock(") {
				return
			}
			pause = false
			// The reader pauses between its read and its check,
			// while the next master grants the lock.
			c.cutOff("r1", true)
			c.office("r2")
			mustHold(t, c.node("r2").master, "/a", want(id))
		}
		n.OnState(hook)
		code(t, second(n.master.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"})), lockapi.CodeNoMaster)
		n.OnState(nil)
		if l, err := n.master.GetLock(t.Context(), &Read{Stale: true}, &lockapi.GetLock{Path: "/a"}); err != nil || l.State != lockapi.StateFree {
			t.Errorf("stale read of the old master: %+v, %v", l, err)
		}
	})
}

// TestReadRidesOutALapse: if the lease is regained within its patience, it
// reads again.
func TestReadRidesOutALapse(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		c.cutOff("r1", true)
		pass(3 * time.Second)
		if openOffice(t, n).lease.Valid(n.clock()) {
			t.Fatal("no lapse")
		}
		go func() { pass(time.Second); c.cutOff("r1", false) }()
		began := time.Now()
		must(t, second(n.master.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"})))
		if d := time.Since(began); d < time.Second {
			t.Errorf("answered after %v, while the lease was out", d)
		}
	})
}

// TestLapseGivesSessionsTimeBack: sessions could not be kept alive during the
// lapse.
func TestLapseGivesSessionsTimeBack(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		id := newSession(t, n.master, 4*time.Second)
		pass(time.Second)
		c.cutOff("r1", true)
		pass(6 * time.Second) // the lease has lapsed for some 4 s of it
		c.cutOff("r1", false)
		pass(time.Second)
		if _, ok := n.State().Session(id); !ok {
			t.Fatal("the session expired in a lapse of its master's lease")
		}
		if k, err := keepalive1(n.master, id, 0, 0); err != nil || k.TTLMS != 4000 {
			t.Errorf("%+v, %v", k, err)
		}
		pass(5500 * time.Millisecond)
		if _, ok := n.State().Session(id); ok {
			t.Error("the session never expires")
		}
	})
}

// TestNewMasterGivesEverySessionOneTTL, and starts every lock-delay anew.
func TestNewMasterGivesEverySessionOneTTL(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		dead := newSession(t, n.master, time.Second)
		mustHold(t, n.master, "/a", want(dead, delayed(20*time.Second)))
		pass(2 * time.Second) // it has expired
		id := newSession(t, n.master, 8*time.Second)
		pass(7 * time.Second)
		c.cutOff("r1", true)
		next := c.elect("r2")
		c.inOffice(next, time.Minute)
		opened := time.Now()
		l, err := next.master.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"})
		if err != nil || l.State != lockapi.StateDelayed || l.DelayRemainingMS < 19_000 {
			t.Errorf("lock-delay after the change of master: %+v, %v; want it whole again", l, err)
		}
		pass(7900 * time.Millisecond)
		if _, ok := next.State().Session(id); !ok {
			t.Fatalf("expired %v after the new master came", time.Since(opened))
		}
		pass(1200 * time.Millisecond)
		if _, ok := next.State().Session(id); ok {
			t.Error("not expired a second after its ttl")
		}
		pass(10 * time.Second)
		if l, _ := next.master.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"}); l.State != lockapi.StateDelayed {
			t.Errorf("the lock-delay ended early: %+v", l)
		}
		pass(2 * time.Second)
		if l, _ := next.master.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"}); l.State != lockapi.StateFree {
			t.Errorf("the lock-delay does not end: %+v", l)
		}
	})
}

// TestKeepaliveInALapseDoesNotCountItTwice: a call that waits for the lease
// extends nothing, and the session gets the lapse back once.
func TestKeepaliveInALapseDoesNotCountItTwice(t *testing.T) {
	const ttl = 4 * time.Second
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		id := newSession(t, n.master, ttl)
		pass(time.Second)
		c.cutOff("r1", true)
		pass(2500 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error, 1)
		go func() {
			_, err := n.master.KeepAlive(ctx, &Caller{}, &lockapi.KeepAlive{Session: id})
			waits <- err
		}()
		pass(6500 * time.Millisecond)
		cancel()
		code(t, <-waits, lockapi.CodeNoMaster)
		c.cutOff("r1", false)
		pass(time.Second)
		must(t, second(keepalive1(n.master, id, 0, 0)))
		if lived, latest := alive(n, id, time.Minute), ttl+ttl/50+time.Second; lived < ttl || lived > latest {
			t.Errorf("expired %v after the last answer, want %v to %v", lived, ttl, latest)
		}
	})
}

// TestExpiryThatALapseMovesIsNotForgotten: the deadline passes while the lease
// is out, and moves when the lease is regained. The session is not kept alive
// in the meantime, and ends once the whole lapse has been given back.
func TestExpiryThatALapseMovesIsNotForgotten(t *testing.T) {
	const ttl = 4 * time.Second
	for _, delay := range []time.Duration{fakeDelay, 300 * time.Millisecond} { // with the longer one, several batches end the lapse
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			n := c.office("r1")
			o := openOffice(t, n)
			id := newSession(t, n.master, ttl)
			due := n.clock() + lease.Drift(drift).SessionSpan(ttl)
			c.setDelay(delay)
			pass(time.Second)
			c.cutOff("r1", true)
			pass(6 * time.Second)
			c.cutOff("r1", false)
			for !o.lease.Valid(n.clock()) {
				pass(fakeDelay)
			}
			lapsed := o.lease.Lapsed()
			if lapsed < 3*time.Second || n.clock() >= due+lapsed {
				t.Fatalf("lapsed for %v: the test shows nothing", lapsed)
			}
			alive(n, id, time.Minute)
			if late := n.clock() - due - lapsed; late < -fakeDelay || late > 2*delay+fakeDelay {
				t.Errorf("messages of %v: it ended %v after its deadline", delay, late)
			}
		})
	}
}

// TestSessionsOfAfterALapseGetNothingOfIt: sessions that were opened or kept
// alive after it live one ttl.
func TestSessionsOfAfterALapseGetNothingOfIt(t *testing.T) {
	const ttl = 4 * time.Second
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		kept := newSession(t, n.master, ttl)
		c.cutOff("r1", true)
		pass(6 * time.Second)
		c.cutOff("r1", false)
		pass(time.Second)
		opened := newSession(t, n.master, ttl)
		must(t, second(keepalive1(n.master, kept, 0, 0)))
		for _, id := range []string{kept, opened} {
			o := openOffice(t, n)
			o.mu.Lock()
			left := o.sessions.due(o.sessions.byID[id]) - n.clock()
			o.mu.Unlock()
			if span := lease.Drift(drift).SessionSpan(ttl); left > span || left < span-fakeDelay {
				t.Errorf("%v is left to it, want %v", left, span)
			}
		}
		c.cutOff("r1", true)
		pass(3500 * time.Millisecond)
		c.cutOff("r1", false)
		pass(300 * time.Millisecond) // the lease is back, after a lapse of at least 1.5 s
		s, err := n.master.GetSession(t.Context(), &Read{}, &lockapi.GetSession{Session: kept})
		if left := ttl - 3800*time.Millisecond + time.Second; err != nil || *s.LeaseRemainingMS < left.Milliseconds() {
			t.Errorf("%+v, %v; want it to show more than %v: the lapse is given back", s, err, left)
		}
	})
}

// TestSlowOpeningTakesNothingFromSessions: sessions and lock-delays count from
// when the office is open, not from the proposal of its opening. Before that,
// sessions could not be kept alive.
func TestSlowOpeningTakesNothingFromSessions(t *testing.T) {
	const ttl = time.Second
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		dead := newSession(t, n.master, ttl)
		mustHold(t, n.master, "/a", want(dead, delayed(ttl)))
		alive(n, dead, time.Minute)
		id := newSession(t, n.master, ttl)
		c.setDelay(700 * time.Millisecond)
		n = c.office("r2")
		began := time.Now()
		if l, err := n.master.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"}); err != nil || l.DelayRemainingMS != ttl.Milliseconds() {
			t.Errorf("%+v, %v; want the whole lock-delay to be left", l, err)
		}
		o := openOffice(t, n)
		o.mu.Lock()
		left := o.sessions.due(o.sessions.byID[id]) - n.clock()
		o.mu.Unlock()
		if span := lease.Drift(drift).SessionSpan(ttl); left > span || left < span-fakeDelay {
			t.Errorf("%v after it opened, %v is left of a session, want %v", time.Since(began), left, span)
		}
	})
}

// TestProposedExpiryIsNotTakenBack by a lapse that moves the deadline: the
// entry is on its way.
func TestProposedExpiryIsNotTakenBack(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		o := openOffice(t, n)
		id := newSession(t, m, time.Second)
		c.setDelay(300 * time.Millisecond)
		pass(1050 * time.Millisecond)
		o.mu.Lock()
		s := o.sessions.byID[id]
		due := o.sessions.due(s)
		o.mu.Unlock()
		if _, lives := n.State().Session(id); !lives || n.clock() < due {
			t.Fatal("its end is not on its way: the test shows nothing")
		}
		until := n.clock() + o.lease.View(n.clock()).Remaining
		o.lease.Extend(n.clock(), leaseTerm, until+time.Minute, drift) // as if it had lapsed for a minute
		code(t, second(keepalive1(m, id, 0, 0)), lockapi.CodeSessionNotFound)
	})
}

// TestHeavyDeletionsGoAPartAtATime: also the files that end with a session, and the
// files and keys below a directory.
func TestHeavyDeletionsGoAPartAtATime(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		pass(time.Minute) // until the cell's level is raised
		const each = 4    // of a kind: more than there are entries under way
		var heavy []func()
		fill := func(dir, session string) {
			for k := 0; k <= mostEnding/2; k += 100 {
				req := lockapi.Transaction{Session: session}
				for i := range 100 {
					w := &lockapi.WriteOperation{Path: fmt.Sprint(dir, k+i), Content: new("")}
					if session != "" {
						w.Ephemeral = new(true)
					}
					req.Then = append(req.Then, lockapi.Operation{Put: w})
				}
				must(t, second(m.Transact(t.Context(), &Caller{}, &lockapi.Transact{Transaction: req})))
			}
		}
		for i := range each {
			id := newSession(t, m, time.Minute)
			fill(fmt.Sprintf("/ends/%d/", i), id)
			fill(fmt.Sprintf("/files/%d/", i), "")
			heavy = append(heavy, func() { must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id})) }, func() {
				dir := fmt.Sprintf("/files/%d/", i)
				if i%2 == 0 {
					must(t, second(m.DeleteFiles(t.Context(), &Caller{}, &lockapi.DeleteFiles{Prefix: dir})))
					return
				}
				tree := lockapi.KeyOperation{Verb: lockapi.KeyDeleteTree, Path: dir}
				must(t, second(m.ChangeKeys(t.Context(), &Caller{}, &lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{tree}})))
			})
		}
		var all sync.WaitGroup
		for _, f := range heavy {
			all.Go(f)
		}
		all.Wait()
		if left := n.State().FileCount(); left != 0 {
			t.Fatalf("%d files are left", left)
		}
		for _, b := range n.sent() {
			ends, deletions := 0, 0
			for _, c := range b.Commands {
				switch op := c.Operation.(type) {
				case *state.CloseSession:
					ends++
				case *state.ChangeKeys:
					deletions++
				case *state.Transaction:
					if _, below := op.Then[0].(*state.DeleteBelow); below {
						deletions++
					}
				}
			}
			if ends > 1 || deletions > 1 {
				t.Errorf("one entry has %d ends of sessions and %d deletions", ends, deletions)
			}
		}
	})
}

// TestDeletionsThatWait for their turn end with their callers, and need the right to
// delete when the turn comes.
func TestDeletionsThatWait(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		rule := func(write ...string) {
			t.Helper()
			must(t, second(m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/p", AccessLists: lockapi.AccessLists{Write: write}})))
		}
		write := by("user:a", WriteAt, "/p/d/f")
		must(t, second(m.WriteFile(t.Context(), &write, &lockapi.WriteFile{Path: "/p/d/f"})))
		o := openOffice(t, n)
		for name, remove := range map[string]func(context.Context) error{
			"files": func(ctx context.Context) error {
				return second(m.DeleteFiles(ctx, new(by("user:a", WriteBelow, "/p/d/")), &lockapi.DeleteFiles{Prefix: "/p/d/"}))
			},
			"keys": func(ctx context.Context) error {
				tree := lockapi.KeyOperation{Verb: lockapi.KeyDeleteTree, Path: "/p/d/"}
				return second(m.ChangeKeys(ctx, new(by("user:a", WriteBelow, "/p/d/")), &lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{tree}}))
			},
		} {
			rule("user:a")
			crowd := o.deletions.begin(mostEnding)
			ctx, leave := context.WithCancel(t.Context())
			left, denied := make(chan error, 1), make(chan error, 1)
			go func() { left <- remove(ctx) }()
			synctest.Wait()
			go func() { denied <- remove(t.Context()) }()
			synctest.Wait()
			leave()
			synctest.Wait()
			select {
			case err := <-left:
				code(t, err, lockapi.CodeNoMaster)
			default:
				t.Errorf("%s: the deletion of a caller that has gone still waits", name)
			}
			rule()
			o.deletions.finish(crowd)
			code(t, <-denied, lockapi.CodePermissionDenied)
			o.deletions.mu.Lock()
			if _, there := n.State().File("/p/d/f"); !there || o.deletions.items != 0 || len(o.deletions.queue) != 0 {
				t.Errorf("%s: the file is there: %v; %d files are being deleted, %d deletions wait", name, there, o.deletions.items, len(o.deletions.queue))
			}
			o.deletions.mu.Unlock()
		}
	})
}

// TestWritesThatWait for their turn end with their callers, and need the right to
// write when the turn comes.
func TestWritesThatWait(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := sessionOfCaller(t, m, "user:a")
		write := func(ctx context.Context, w lockapi.WriteFile) error {
			w.Path, w.Session = "/p/f", s
			return second(m.WriteFile(ctx, new(using(by("user:a", WriteAt, "/p/f"), s)), &w))
		}
		must(t, write(t.Context(), lockapi.WriteFile{}))
		f, _ := n.State().File("/p/f")
		first := compareAndSetCall(&state.Transaction{Session: "another", Then: []state.Step{&state.Write{Path: "/p/f", When: state.IfRevision}}})
		o := openOffice(t, n)
		o.turns.enter(t.Context(), first, nil)
		ctx, leave := context.WithCancel(t.Context())
		left, denied := make(chan error, 1), make(chan error, 1)
		go func() { left <- write(ctx, lockapi.WriteFile{IfRevision: &f.Revision}) }()
		synctest.Wait()
		go func() { denied <- write(t.Context(), lockapi.WriteFile{IfRevision: &f.Revision}) }()
		synctest.Wait()
		leave()
		synctest.Wait()
		select {
		case err := <-left:
			code(t, err, lockapi.CodeNoMaster)
		default:
			t.Error("the write of a caller that has gone still waits")
		}
		must(t, second(m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/p", AccessLists: lockapi.AccessLists{}})))
		o.turns.placed(first)
		o.turns.leave(first, false)
		code(t, <-denied, lockapi.CodePermissionDenied)
		if now, _ := n.State().File("/p/f"); now.Revision != f.Revision {
			t.Errorf("the file is at revision %d, was at %d", now.Revision, f.Revision)
		}
		nobodysTurn(t, n)
	})
}

// TestOpeningThatWaits for the end of the session under its key needs its credential
// until then.
func TestOpeningThatWaits(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		token, sum := tokenFor(t, m, "user:a", 0)
		opening := func() error {
			req := &lockapi.OpenSession{Key: "k", SessionRequest: lockapi.SessionRequest{TTLMS: 1000}}
			return second(m.OpenSession(t.Context(), &Caller{Secret: sum, Ask: Ask{Right: Known}}, req))
		}
		must(t, opening())
		o := openOffice(t, n)
		crowd := o.endings.begin(mostEnding)
		pass(5 * time.Second)
		opened := make(chan error, 1)
		go func() { opened <- opening() }()
		synctest.Wait()
		must(t, m.RevokeToken(t.Context(), new(root(Operate)), &lockapi.RevokeToken{ID: token}))
		o.endings.finish(crowd)
		code(t, <-opened, lockapi.CodeUnauthenticated)
		pass(time.Second)
		if left := n.State().SessionCount(); left != 0 {
			t.Errorf("%d sessions", left)
		}
	})
}

// TestEndsThatWait for their turn need the right to end the session when the turn
// comes. An expired session ends without a caller.
func TestEndsThatWait(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		operators := func(all ...string) {
			t.Helper()
			must(t, second(m.PutCellAccess(t.Context(), new(root(Operate)), &lockapi.PutCellAccess{CellAccess: lockapi.CellAccess{Operate: all}})))
		}
		opened, err := m.OpenSession(t.Context(), new(by("user:a", AnyCaller)), &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 60_000}})
		must(t, err)
		operators("user:b")
		o := openOffice(t, n)
		crowd := o.endings.begin(mostEnding)
		closed := make(chan error, 1)
		go func() {
			b := by("user:b", Operate)
			b.Ask.Session = opened.ID
			closed <- m.CloseSession(t.Context(), &b, &lockapi.CloseSession{Session: opened.ID, Quiet: true})
		}()
		synctest.Wait()
		operators()
		o.endings.finish(crowd)
		code(t, <-closed, lockapi.CodePermissionDenied)
		if _, lives := n.State().Session(opened.ID); !lives {
			t.Error("a caller has ended the session that is no operator any more")
		}
		o.mu.Lock()
		if o.sessions.byID[opened.ID].quiet {
			t.Error("a refused call has changed who is told of the end")
		}
		o.mu.Unlock()
		pass(2 * time.Minute)
		if _, lives := n.State().Session(opened.ID); lives {
			t.Error("the session has not expired")
		}
	})
}

// When sessions with many holds end at the same time, expired or closed, they
// end in groups. A session with more holds than a group may have ends alone.
func TestHeavySessionsEndAPartAtATime(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		sizes := []int{mostEnding * 3 / 8, mostEnding * 3 / 8, mostEnding * 3 / 8, mostEnding * 5 / 4, 1, 1}
		heavy := map[string]int{}
		var all sync.WaitGroup
		for i, size := range sizes {
			id := newSession(t, m, time.Minute)
			heavy[id] = size
			for k := range size {
				all.Go(func() { mustHold(t, m, fmt.Sprintf("/%d/%d", i, k), want(id)) })
			}
		}
		all.Wait()
		closed := false
		for id := range heavy {
			if closed = !closed; closed {
				all.Go(func() {
					if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id}); err != nil {
						t.Error(err)
					}
				})
				continue
			}
			o := openOffice(t, n)
			all.Go(func() {
				if _, err := o.proposeEnd(&Caller{}, &state.ExpireSession{Session: id}, id, false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s := n.State(); s.SessionCount() != 0 || s.LockCount() != 0 {
			t.Fatalf("%d sessions and %d locks are left", s.SessionCount(), s.LockCount())
		}
		for _, b := range n.sent() {
			items, ends := 0, 0
			for _, c := range b.Commands {
				switch op := c.Operation.(type) {
				case *state.ExpireSession:
					items, ends = items+1+heavy[op.Session], ends+1
				case *state.CloseSession:
					items, ends = items+1+heavy[op.Session], ends+1
				}
			}
			if items > mostEnding && ends > 1 {
				t.Errorf("one entry ends %d sessions with %d items", ends, items)
			}
		}
		o := openOffice(t, n)
		e := &o.endings
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.items != 0 || len(e.queue) != 0 {
			t.Errorf("%d items are ending, and %d wait", e.items, len(e.queue))
		}
	})
}
