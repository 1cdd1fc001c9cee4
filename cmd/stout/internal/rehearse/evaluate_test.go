package rehearse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

func session(id string, ttl, left time.Duration) lockapi.SessionState {
	ms := left.Milliseconds()
	return lockapi.SessionState{Session: lockapi.Session{ID: id, Name: id, TTLMS: ttl.Milliseconds()}, LeaseRemainingMS: &ms}
}

func wellCell() *Before {
	b := &Before{
		Cell:     lockapi.Cell{Epoch: 3, Master: &lockapi.MasterRef{ID: "r1"}, Lease: lockapi.Lease{Held: true, TermMS: 750}},
		Members:  lockapi.Members{Tolerates: 1},
		Sessions: []lockapi.SessionState{session("a", 12*time.Second, 9*time.Second)},
	}
	for i := range 3 {
		b.Members.Members = append(b.Members.Members, lockapi.Member{ID: fmt.Sprintf("r%d", i+1), Suffrage: lockapi.SuffrageVoter, Healthy: true})
	}
	return b
}

func TestBeforehand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Before)
		noGo   bool
		want   string // empty: nothing speaks against it
	}{
		{"all is well", func(*Before) {}, false, ""},
		{"no master", func(b *Before) { b.Cell.Master = nil }, true, "no master holds its lease"},
		{"no lease", func(b *Before) { b.Cell.Lease.Held = false }, true, "no master holds its lease"},
		{"one is not well", func(b *Before) { b.Members.Members[2].Healthy = false }, true, "r3 is unhealthy"},
		{"one just close", func(b *Before) { b.Members.Members[2].Behind = closeBehind }, false, ""},
		{"one behind", func(b *Before) { b.Members.Members[2].Behind = closeBehind + 1 }, true, "r3 is 65 entries behind"},
		{"nonvoters do not count", func(b *Before) {
			b.Members.Members = append(b.Members.Members, lockapi.Member{ID: "r4", Suffrage: lockapi.SuffrageNonvoter})
		}, false, ""},
		{"no failure is tolerated", func(b *Before) { b.Members.Tolerates = 0 }, true, "tolerates no failure"},
		{"a cell of one", func(b *Before) { b.Members.Members, b.Members.Tolerates = b.Members.Members[:1], 0 }, true, "no other replica"},
		{"a change under way", func(b *Before) {
			b.Members.Members = append(b.Members.Members, lockapi.Member{ID: "r3", Suffrage: lockapi.SuffrageNonvoter, Healthy: true})
		}, true, "directory of r3 is being replaced"},
		{"to nobody", func(b *Before) { b.To = "r9" }, true, "no member r9"},
		{"to itself", func(b *Before) { b.To = "r1" }, true, "r1 is already the master"},
		{"to one without a vote", func(b *Before) {
			b.Members.Members = append(b.Members.Members, lockapi.Member{ID: "r4", Suffrage: lockapi.SuffrageNonvoter, Healthy: true})
			b.To = "r4"
		}, true, "r4 has no vote"},
		{"to another", func(b *Before) { b.To = "r2" }, false, ""},
		{"one that nobody keeps alive", func(b *Before) { b.Sessions = append(b.Sessions, session("b", 12*time.Second, 3*time.Second-1e6)) }, false,
			"1 session with less than a quarter of the ttl left, so keepalives seem to be missing: b (2.999s of 12s)"},
		{"one at a quarter", func(b *Before) { b.Sessions = append(b.Sessions, session("b", 12*time.Second, 3*time.Second)) }, false, ""},
		{"a short one", func(b *Before) { b.Sessions = append(b.Sessions, session("b", 1499*time.Millisecond, time.Second)) }, false,
			"1 session may nearly expire in a gap of 750ms: b (1s of 1.499s)"},
		{"just long enough", func(b *Before) { b.Sessions = append(b.Sessions, session("b", 1500*time.Millisecond, time.Second)) }, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := wellCell()
			c.change(b)
			got := Assess(b)
			if c.want == "" && len(got) > 0 {
				t.Fatalf("got %+v, want nothing", got)
			}
			if c.want != "" && !slices.ContainsFunc(got, func(x Warning) bool { return x.NoGo == c.noGo && strings.Contains(x.What, c.want) }) {
				t.Errorf("got %+v, want %q", got, c.want)
			}
			if Go(got) == c.noGo {
				t.Errorf("go is %v", Go(got))
			}
		})
	}
}

func TestManySessionsAreSummarised(t *testing.T) {
	t.Parallel()
	b := wellCell()
	for i := range 5000 {
		b.Sessions = append(b.Sessions, session(fmt.Sprintf("s%04d", 4999-i), 12*time.Second, time.Duration(4999-i)*time.Microsecond*100))
	}
	got := Assess(b)
	if len(got) != 1 || !strings.HasPrefix(got[0].What, "5000 sessions with less") {
		t.Fatalf("got %+v", got)
	}
	if what := got[0].What; !strings.HasSuffix(what, " and 4990 more") || len(what) > 500 {
		t.Errorf("got %q", what)
	}
}

const ms = time.Millisecond

func TestServiceOf(t *testing.T) {
	t.Parallel()
	at := func(end time.Duration, failed string) Attempt {
		return Attempt{Begun: end - ms, Ended: end, Failed: failed}
	}
	for _, c := range []struct {
		name     string
		attempts []Attempt
		office   time.Duration // seen first; 0 for the end
		want     Service
	}{
		{"none at all", nil, 0, Service{GapMS: 1000, FromMS: -100, UsualMS: 0, Back: 1000 * ms}},
		{"steady", []Attempt{at(50*ms, ""), at(100*ms, ""), at(500*ms, ""), at(990*ms, "")}, 0,
			Service{Attempts: 4, UsualMS: 50, GapMS: 490, FromMS: 400, Back: 990 * ms}},
		{"in any order", []Attempt{at(990*ms, ""), at(500*ms, ""), at(50*ms, ""), at(100*ms, "")}, 0,
			Service{Attempts: 4, UsualMS: 50, GapMS: 490, FromMS: 400, Back: 990 * ms}},
		{"one that failed does not end a gap", []Attempt{at(100*ms, ""), at(300*ms, "no_master"), at(600*ms, ""), at(900*ms, "")}, 0,
			Service{Attempts: 4, Failed: 1, UsualMS: 100, GapMS: 500, FromMS: 0, Back: 600 * ms}},
		{"it never came back", []Attempt{at(100*ms, ""), at(300*ms, "no_master")}, 0,
			Service{Attempts: 2, Failed: 1, UsualMS: 100, GapMS: 900, FromMS: 0, Back: 1000 * ms}},
		{"a long one is counted by its end", []Attempt{at(90*ms, ""), {Begun: 110 * ms, Ended: 700 * ms}, at(950*ms, "")}, 0,
			Service{Attempts: 3, UsualMS: 90, GapMS: 610, FromMS: -10, Back: 700 * ms}},
		{"after the end", []Attempt{at(50*ms, ""), at(200*ms, ""), at(1001*ms, "")}, 0, Service{Attempts: 2, UsualMS: 50, GapMS: 800, FromMS: 100, Back: 1000 * ms}},
		{"one in office that is slow once", []Attempt{at(100*ms, ""), at(300*ms, ""), at(350*ms, ""), at(990*ms, "")}, 310 * ms,
			Service{Attempts: 4, UsualMS: 100, GapMS: 200, FromMS: 0, LaterMS: 640, Back: 300 * ms}},
		{"one in office that does not serve yet", []Attempt{at(100*ms, ""), at(700*ms, ""), at(900*ms, "")}, 300 * ms,
			Service{Attempts: 3, UsualMS: 100, GapMS: 600, FromMS: 0, LaterMS: 200, Back: 700 * ms}},
	} {
		got := ServiceOf(c.attempts, 100*ms, cmp.Or(c.office, 1000*ms), 1000*ms)
		by := got.By
		got.By = nil
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
		if sum := by["no_master"]; sum != got.Failed {
			t.Errorf("%s: failed by %v, of %d", c.name, by, got.Failed)
		}
	}
}

// lookedAt is a rehearsal that went well: service was back at 2 s.
func lookedAt() *Seen {
	a, b := session("a", 12*time.Second, 9*time.Second), session("b", 12*time.Second, 9*time.Second)
	a.Holds = []lockapi.Hold{{Path: "/x", Token: 7}}
	b.Waits = []lockapi.Wait{{Path: "/x", Position: 2, Handle: "h"}}
	sessions := map[string]lockapi.SessionState{"a": a, "b": b}
	return &Seen{
		From: Office{"r1", 3}, To: Office{"r2", 4}, Last: Office{"r2", 4}, Change: time.Second, Office: 1900 * ms, End: 10 * time.Second,
		Reads: steady(), Writes: steady(),
		Ends:   map[string]time.Duration{"a": 9 * time.Second, "b": 8 * time.Second},
		Before: Listing{Begun: 900 * ms, Ended: 950 * ms, Sessions: sessions},
		After:  Listing{Begun: 9 * time.Second, Ended: 9100 * ms, Sessions: map[string]lockapi.SessionState{"a": a, "b": b}},
		Own:    Own{LockKept: true, Waiters: 3, InOrder: 3},
	}
}

// steady returns attempts every 100 ms that fail between 1 s and 2 s.
func steady() (out []Attempt) {
	for at := 100 * ms; at <= 10*time.Second; at += 100 * ms {
		a := Attempt{Begun: at - ms, Ended: at}
		if at > time.Second && at < 2*time.Second {
			a.Failed = "no_master"
		}
		out = append(out, a)
	}
	return out
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func(*Seen)
		verdict string
		why     string
	}{
		{"all went well", func(*Seen) {}, Passed, ""},
		{"no master", func(s *Seen) { s.To = Office{} }, Failed, "no master took office"},
		{"none at the end", func(s *Seen) { s.Last = Office{} }, Failed, "r2 took office, but at the end no master holds its lease"},
		{"another one at the end", func(s *Seen) { s.Last = Office{"r3", 5} }, Look, "at the end r3 is master in epoch 5"},
		{"the same one at the end, of later", func(s *Seen) { s.Last.Epoch = 6 }, Look, "r2 lost its office again"},
		{"something that could not be seen", func(s *Seen) { s.Notes = []string{"no list"} }, Look, "no list"},
		{"nothing changed", func(s *Seen) { s.To = s.From }, Failed, "in the same epoch"},
		{"the same again", func(s *Seen) { s.To = Office{"r1", 4} }, Look, "r1 is master again"},
		{"a session expired by its lock's history", func(s *Seen) {
			delete(s.After.Sessions, "a")
			s.Gone = map[string]string{"a": lockapi.ReasonSessionExpired}
		}, Failed, "1 session expired"},
		{"one was closed", func(s *Seen) {
			delete(s.After.Sessions, "a")
			s.Gone = map[string]string{"a": lockapi.ReasonSessionClosed}
		}, Passed, ""},
		{"one that held nothing is gone too soon to have expired", func(s *Seen) { delete(s.After.Sessions, "b") }, Passed, ""},
		{"one that held nothing is gone after its time", func(s *Seen) {
			delete(s.After.Sessions, "b")
			s.After.Ended = 20 * time.Second
		}, Failed, "1 session expired"},
		{"one in jeopardy", func(s *Seen) { s.Ends["a"] = 2*time.Second - ms }, Look, "1 session may have been in jeopardy"},
		{"one just not", func(s *Seen) { s.Ends["a"] = 2 * time.Second }, Passed, ""},
		{"one whose end lies in a pause much later", func(s *Seen) {
			s.Ends["a"] = 5 * time.Second
			s.Writes = slices.DeleteFunc(s.Writes, func(a Attempt) bool { return a.Ended > 4*time.Second && a.Ended < 7*time.Second })
		}, Passed, ""},
		{"a waiter is overtaken", func(s *Seen) {
			b := s.After.Sessions["b"]
			b.Waits = []lockapi.Wait{{Path: "/x", Position: 3, Handle: "h"}}
			s.After.Sessions["b"] = b
		}, Failed, "1 waiter lost its queue position"},
		{"a waiter comes forward", func(s *Seen) {
			b := s.After.Sessions["b"]
			b.Waits = []lockapi.Wait{{Path: "/x", Position: 1, Handle: "h"}}
			s.After.Sessions["b"] = b
		}, Passed, ""},
		{"its own lock is lost", func(s *Seen) { s.Own.LockKept = false }, Failed, "own lock was lost"},
		{"its own waiters change places", func(s *Seen) { s.Own.InOrder = 1 }, Failed, "own 3 waiters, 1 kept"},
		{"its own session expired", func(s *Seen) { s.Own.Expired = true }, Failed, "own session expired"},
		{"its own session was in jeopardy", func(s *Seen) { s.Own.Jeopardy = true }, Look, "own session was in jeopardy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := lookedAt()
			c.change(s)
			r := Evaluate(s)
			if r.Verdict != c.verdict || c.why == "" && len(r.Why) > 0 || !strings.Contains(strings.Join(r.Why, "; "), c.why) {
				t.Errorf("got %s, %q; want %s, %q", r.Verdict, r.Why, c.verdict, c.why)
			}
		})
	}
}

func TestJudgeMeasures(t *testing.T) {
	t.Parallel()
	s := lookedAt()
	b := s.After.Sessions["b"] // the waiter got the lock after its holder released it
	b.Waits, b.Holds = nil, []lockapi.Hold{{Path: "/x", Handle: "h", Token: 8}}
	a := s.After.Sessions["a"]
	a.Holds = nil
	s.After.Sessions["a"], s.After.Sessions["b"] = a, b
	r := Evaluate(s)
	if r.Writes.GapMS != 1000 || r.Writes.FromMS != 0 || r.Writes.Failed != 9 {
		t.Errorf("writes: %+v", r.Writes)
	}
	want := []Near{{"b", "b", 12000, 6000}, {"a", "a", 12000, 7000}}
	if !slices.Equal(r.Nearest, want) || r.LeastShare != 0.5 {
		t.Errorf("nearest: %+v, least %g; want %+v", r.Nearest, r.LeastShare, want)
	}
	if r.Holds.Given != 1 || r.Holds.Seen != 1 || r.Waiters.Granted != 1 || r.Waiters.Seen != 1 {
		t.Errorf("holds %+v, waiters %+v", r.Holds, r.Waiters)
	}
	delete(s.After.Sessions, "a")
	if r = Evaluate(s); r.Holds.Lost != 1 {
		t.Errorf("holds %+v", r.Holds)
	}
}
