package quota

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// cell is a state, the ledger of its office, and the calls under way.
type cell struct {
	testing.TB
	quotas  Quotas
	refused Refusals
	state   *state.State
	ledger  *Ledger
	calls   []*underway
	next    int                      // for ids
	limits  map[string]access.Limits // of principals; nil while access is off
}

// underway is a call with an open reservation.
type underway struct {
	op       state.Operation
	by       string // principal
	reserved Reservation
	applied  bool
}

func newCell(t testing.TB, q Quotas) *cell {
	c := &cell{TB: t, quotas: q, state: state.New()}
	c.commit(1, &state.OpenOffice{Master: "r1", Term: 1})
	c.commit(1, &state.RaiseLevel{Level: state.Level})
	c.open()
	return c
}

func (c *cell) open() {
	c.ledger = New(&c.quotas, &c.refused, func() *state.State { return c.state })
}

func (c *cell) commit(term uint64, op state.Operation) state.Result {
	c.Helper()
	return c.commitAs("", term, op)
}

// commitAs commits an operation of a principal.
func (c *cell) commitAs(by string, term uint64, op state.Operation) state.Result {
	c.Helper()
	next, out := c.state.Apply(c.state.Index+1, term, state.Batch{Epoch: c.state.Epoch, LeaseMS: 1000,
		Commands: []state.Command{{Time: 1, Caller: by, Operation: op}}})
	if !out.Accepted {
		c.Fatalf("%T was not accepted", op)
	}
	c.state = next
	if c.ledger != nil {
		c.ledger.Follow(out.Changes)
	}
	return out.Results[0]
}

// admit reserves what a call needs, and returns the call with the operation to
// propose.
func (c *cell) admit(op state.Operation) (*underway, error) { return c.admitAs("", op) }

// admitAs is admit for a principal.
func (c *cell) admitAs(by string, op state.Operation) (u *underway, err error) {
	u = &underway{op: op, by: by}
	switch op := op.(type) {
	case *state.OpenSession:
		u.reserved, err = c.ledger.Session(op, by)
	case *state.Acquire:
		var full *Excess
		if u.reserved, full, err = c.ledger.Acquire(op); full != nil {
			once := *op
			once.Wait, u.op = state.NoWait, &once
		}
	case *state.Transaction:
		u.reserved, err = c.ledger.Transaction(op, by)
	case *state.PutRule:
		u.reserved, err = c.ledger.Rule(&op.Rule)
	}
	return u, err
}

// call makes a call from start to end.
func (c *cell) call(op state.Operation) error {
	c.Helper()
	return c.callAs("", op)
}

// callAs is call for a principal.
func (c *cell) callAs(by string, op state.Operation) error {
	c.Helper()
	u, err := c.admitAs(by, op)
	if err == nil {
		c.commitAs(by, 1, u.op)
		c.ledger.Release(u.reserved)
	}
	return err
}

func (c *cell) must(op state.Operation) {
	c.Helper()
	if err := c.call(op); err != nil {
		c.Fatal(err)
	}
}

// sessionSums counts what a session uses, by walking the state.
func sessionSums(s *state.State, v *state.Session) (all Sums) {
	all.Sessions = 1
	all.SessionBytes = v.OwnBytes() + s.Answers(v.ID).Bytes()
	for hold, wait := range s.HoldsAndWaits(v.ID) {
		all.Holds++
		if wait != nil {
			all.Waiters++
			all.SessionBytes += state.BytesOfHandle(wait.Path, wait.Handle)
		} else {
			all.SessionBytes += state.BytesOfHandle(hold.Path, hold.Handle)
		}
	}
	return all
}

// principalSums counts what each principal uses, by walking the state.
func principalSums(s *state.State) map[string]Sums {
	all := map[string]Sums{}
	add := func(principal string, one Sums) {
		sum := all[principal]
		sum.add(&one, 1)
		all[principal] = sum
	}
	for v := range s.Sessions("") {
		own := sessionSums(s, v)
		own.Bytes, own.SessionBytes = own.SessionBytes, 0
		add(v.Principal, own)
	}
	for f := range s.Files("", "") {
		add(f.Principal, Sums{Files: 1, Bytes: state.BytesOfFile(f.Path, len(f.Content))})
	}
	return all
}

// exceeded returns a quota that the state exceeds, with its figures, or "".
func exceeded(s *state.State, q *Quotas, limits map[string]access.Limits) string {
	for principal, sums := range principalSums(s) {
		l, bounded := limits[principal]
		if used := sums.All(); bounded {
			for k := PrincipalSessions; k <= PrincipalBytes; k++ {
				if used[k] > l[k.Resource()] {
					return fmt.Sprintf("%s of %q: %d of %d", k.Name(), principal, used[k], l[k.Resource()])
				}
			}
		}
	}
	most, cell := q.All(), SumsOf(s)
	for k, used := range cell.All() {
		if Kind(k).OfCell() && most[k] > 0 && used > most[k] {
			return fmt.Sprintf("%s: %d of %d", Kind(k).Name(), used, most[k])
		}
	}
	for v := range s.Sessions("") {
		own := sessionSums(s, v)
		for k, used := range own.All() {
			if Kind(k) < PrincipalSessions && most[k] > 0 && used > most[k] {
				return fmt.Sprintf("%s of %s: %d of %d", Kind(k).Name(), v.ID, used, most[k])
			}
		}
	}
	return ""
}

// walk makes random calls.
type walk struct {
	*cell
	rng        *rand.Rand
	principals []string // callers
}

func (w walk) principal() string { return w.either(w.principals...) }

func (w walk) either(all ...string) string { return all[w.rng.IntN(len(all))] }
func (w walk) path() string                { return w.either("/a", "/b", "/c/d") }
func (w walk) handle() string              { return w.either("", "h", "hh") }

func (w walk) session() string {
	all := []string{"none"}
	for v := range w.state.Sessions("") {
		all = append(all, v.ID, v.ID)
	}
	return w.either(all...)
}

// operation returns a random operation.
func (w walk) operation() state.Operation {
	switch w.rng.IntN(20) {
	case 0:
		return &state.ExpireSession{Session: w.session()}
	case 1, 2:
		w.next++
		op := &state.OpenSession{Session: fmt.Sprint("s", w.next), TTLMS: 1000, Key: w.either("", "k", "kk")}
		op.Digest = []byte(op.Key)
		return op
	case 3, 4:
		return &state.Release{Session: w.session(), Path: w.path(), Handle: w.handle()}
	case 5:
		return &state.Transaction{Then: []state.Step{&state.Delete{Path: w.path()}}}
	case 6, 7, 8, 9, 10, 11, 12:
		op := &state.Acquire{Session: w.session(), Path: w.path(), Handle: w.handle(), Mode: state.Exclusive, DelayMS: int64(w.rng.IntN(2)),
			Wait: state.WaitFor(w.rng.IntN(3))}
		if with := w.path(); w.rng.IntN(3) == 0 && with != op.Path {
			op.With = []string{with}
		}
		return op
	case 13, 14:
		return &state.Transaction{Then: []state.Step{w.write()}}
	}
	op := &state.Transaction{Session: w.session(), Then: w.steps(), Else: w.steps(), If: []state.Condition{&state.FileExists{Path: w.path(), Exists: true}}}
	if w.rng.IntN(3) > 0 {
		w.next++
		op.Key, op.Digest = w.either("a", "b", "c"), fmt.Append(nil, w.next)
		op.Then, op.Else = append(op.Then, w.write()), append(op.Else, w.write()) // what only deletes is not refused for its answer
	}
	return op
}

func (w walk) write() *state.Write {
	return &state.Write{Path: w.path(), Content: make([]byte, w.rng.IntN(40)), Sum: make([]byte, 32), Sequential: w.rng.IntN(5) == 0}
}

func (w walk) steps() (all []state.Step) {
	for range w.rng.IntN(4) {
		switch path := w.path(); w.rng.IntN(9) {
		case 0:
			all = append(all, &state.Delete{Path: path})
		case 1:
			all = append(all, &state.Get{Path: path})
		case 2:
			all = append(all, &state.Take{Path: path, Handle: w.handle(), Mode: state.Exclusive, DelayMS: 1})
		case 3:
			all = append(all, &state.Free{Path: path, Handle: w.handle()})
		default:
			all = append(all, w.write())
		}
	}
	return all
}

// find picks a random call under way, or returns nil.
func (w walk) find(applied bool) *underway {
	all := slices.DeleteFunc(slices.Clone(w.calls), func(u *underway) bool { return u.applied != applied })
	if len(all) == 0 {
		return nil
	}
	return all[w.rng.IntN(len(all))]
}

func (w walk) apply(u *underway) {
	if u != nil {
		u.applied = true
		w.commitAs(u.by, 1, u.op)
	}
}

func (w walk) end(u *underway) {
	if u != nil {
		w.ledger.Release(u.reserved)
		w.calls = slices.DeleteFunc(w.calls, func(other *underway) bool { return other == u })
	}
}

func (w walk) step() {
	switch w.rng.IntN(40) {
	case 0: // calls of the office before have failed
		w.calls = nil
		w.open()
	case 1, 2:
		w.end(w.find(false)) // which fails
	case 3, 4:
		for w.find(false) != nil {
			w.apply(w.find(false))
		}
		for w.find(true) != nil {
			w.end(w.find(true))
		}
	case 5, 6, 7, 8:
		w.again(w.find(false))
	case 9, 10, 11, 12, 13, 14, 15, 16, 17, 18:
		w.apply(w.find(false))
	case 19, 20, 21, 22, 23:
		w.end(w.find(true))
	default:
		op, by := w.operation(), w.principal()
		if own := w.ownerOf(op); own != "" && w.limits != nil {
			by = own // only its principal uses a session
		}
		switch u, err := w.admitAs(by, op); {
		case err == nil:
			w.calls = append(w.calls, u)
		case !errors.Is(err, lockapi.CodeTooMany):
			w.Fatal(err)
		case len(w.calls) == 0:
			w.checkRefusal(by, op, err)
		}
	}
}

// TestNeverExceeded admits calls and applies them in any order. Between them
// sessions end and files are deleted, which the ledger learns only afterwards.
func TestNeverExceeded(t *testing.T) {
	for i, q := range []Quotas{
		{Sessions: 3, Holds: 4, Waiters: 2, Files: 3, Content: 40, SessionHolds: 3, SessionWaiters: 1},
		{Waiters: 2, SessionHolds: 2, Content: 40},
		{Bytes: 3500, SessionBytes: 2000},
		{Bytes: 68_500, SessionBytes: 66_800},
	} {
		for _, seed := range testrun.Sample(t, 2, 20) {
			t.Run(fmt.Sprint(i, "/", seed), func(t *testing.T) {
				w := walk{newCell(t, q), rand.New(rand.NewPCG(uint64(i), uint64(seed))), []string{"", "user:a"}}
				for range 3000 {
					w.step()
					w.check()
				}
				for k, most := range q.All() {
					if most > 0 && w.refused[k].Load() == 0 {
						t.Errorf("%s was never used up", Kind(k).Name())
					}
				}
			})
		}
	}
}

// again sends a copy of a call under way, which must not be refused.
func (c *cell) again(u *underway) {
	if u == nil || u.reserved.call == (call{}) {
		return
	}
	op := u.op
	if open, ok := op.(*state.OpenSession); ok {
		copied := *open
		c.next++
		copied.Session = fmt.Sprint("s", c.next)
		op = &copied
	}
	copied, err := c.admitAs(u.by, op)
	if err != nil {
		c.Fatalf("a copy of %+v is refused: %v", op, err)
	}
	c.calls = append(c.calls, copied)
}

// checkRefusal checks that a refused call would have exceeded a quota, if no
// other call is under way. Transactions with a key are exempt: their answer, or
// a branch that is not run, may be shorter than reserved.
func (c *cell) checkRefusal(by string, op state.Operation, err error) {
	if t, ok := op.(*state.Transaction); ok && t.Session != "" {
		return
	}
	next, _ := c.state.Apply(c.state.Index+1, 1, state.Batch{Epoch: c.state.Epoch, LeaseMS: 1000, Commands: []state.Command{{Caller: by, Operation: op}}})
	if SumsOf(next) != SumsOf(c.state) && exceeded(next, &c.quotas, c.limits) == "" {
		c.Fatalf("%+v is refused alone, though it fits: %v", op, err)
	}
}

func (c *cell) check() {
	if what := exceeded(c.state, &c.quotas, c.limits); what != "" {
		c.Fatal(what)
	}
	if err := c.state.Check(); err != nil {
		c.Fatal(err)
	}
	if len(c.calls) > 0 {
		return
	}
	if c.ledger.underway != (Sums{}) || len(c.ledger.calls) > 0 || c.ledger.Used() != SumsOf(c.state) {
		c.Fatalf("no call is under way, but reserved are %+v, %v", c.ledger.underway, c.ledger.calls)
	}
	want := map[string]use{}
	for v := range c.state.Sessions("") {
		want[v.ID] = use{has: sessionSums(c.state, v)}
	}
	got := map[string]use{}
	for id, own := range c.ledger.sessions {
		got[id] = own.use
		if own.keyed != 0 || c.ledger.owners[own.owner.key] != own.owner {
			c.Fatalf("session %s has %d keyed calls, and the principal %q", id, own.keyed, own.owner.key)
		}
	}
	if !maps.Equal(got, want) {
		c.Fatalf("the ledger has %+v; the state %+v", got, want)
	}
	clear(want)
	for principal, sums := range principalSums(c.state) {
		want[principal] = use{has: sums}
	}
	clear(got)
	for principal, o := range c.ledger.owners {
		got[principal] = o.use
	}
	if !maps.Equal(got, want) {
		c.Fatalf("by principal the ledger has %+v; the state %+v", got, want)
	}
}
