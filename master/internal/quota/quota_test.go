package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// refusedBy checks that a call was refused because of the named quota, and that
// the error has a remedy.
func (c *cell) refusedBy(op state.Operation, quota string) {
	c.Helper()
	u, err := c.admit(op)
	var e *lockapi.Error
	if !errors.As(err, &e) || e.Code != lockapi.CodeTooMany || e.RetryAfter <= 0 || e.Quota != quota || e.Limit <= 0 || e.Used < 0 || e.Principal != "" ||
		!strings.HasPrefix(e.Detail, "quota "+quota+" is used up") || !strings.Contains(e.Detail, "or have the quota raised") || u.reserved.cost != (Sums{}) {
		c.Errorf("%v, want a refusal by %s", err, quota)
	}
}

// under begins a call and leaves it under way.
func (c *cell) under(op state.Operation) *underway {
	c.Helper()
	u, err := c.admit(op)
	if err != nil {
		c.Fatal(err)
	}
	return u
}

func put(path string, size int) *state.Write {
	return &state.Write{Path: path, Content: make([]byte, size), Sum: make([]byte, 32)}
}

func sequential(path string) *state.Write {
	w := put(path, 0)
	w.Sequential = true
	return w
}

func puts(writes ...*state.Write) *state.Transaction { return &state.Transaction{Then: steps(writes)} }

func steps(writes []*state.Write) (all []state.Step) {
	for _, w := range writes {
		all = append(all, w)
	}
	return all
}

func either(then, other []*state.Write) *state.Transaction {
	return &state.Transaction{If: []state.Condition{&state.FileExists{Path: "/none", Exists: true}}, Then: steps(then), Else: steps(other)}
}

func keyed(key string, steps ...state.Step) *state.Transaction {
	return &state.Transaction{Session: "s", Key: key, Then: steps}
}

func remove(path string) *state.Transaction {
	return &state.Transaction{Then: []state.Step{&state.Delete{Path: path}}}
}

var opening = &state.OpenSession{Session: "s", TTLMS: 1000}

func TestFiles(t *testing.T) {
	c := newCell(t, Quotas{Files: 2})
	c.must(puts(put("/a", 1)))
	c.must(puts(put("/b", 1)))
	c.refusedBy(puts(put("/c", 0)), "max-files")
	c.refusedBy(puts(sequential("/q-")), "max-files")
	c.must(puts(put("/a", 100))) // it is no further one
	c.must(remove("/a"))
	c.must(puts(put("/c", 1)))

	c = newCell(t, Quotas{Content: 100})
	c.must(puts(put("/a", 60)))
	c.refusedBy(puts(put("/b", 41)), "max-content")
	c.must(puts(put("/b", 40)))
	c.refusedBy(puts(put("/b", 41)), "max-content")
	c.must(puts(put("/b", 10)))
	c.must(puts(put("/a", 90)))

	c = newCell(t, Quotas{Bytes: state.BytesOfFile("/q-0000000000000001", 0)})
	c.refusedBy(puts(sequential("/qq-")), "max-bytes")
	c.must(puts(sequential("/q-")))
	c.refusedBy(puts(put("/q-0000000000000001", 1)), "max-bytes")
}

// TestFileMadeAnew: a call that overwrites a file counts as one that may create
// it.
func TestFileMadeAnew(t *testing.T) {
	c := newCell(t, Quotas{Files: 1})
	c.must(puts(put("/a", 1)))
	u := c.under(puts(put("/a", 1)))
	c.must(remove("/a"))
	c.refusedBy(puts(put("/b", 1)), "max-files")
	c.ledger.Release(u.reserved)
	c.must(puts(put("/b", 1)))
}

func TestTransactionAsAWhole(t *testing.T) {
	c := newCell(t, Quotas{Files: 3, Content: 100})
	c.must(puts(put("/a", 10)))
	c.refusedBy(puts(put("/a", 1), put("/b", 1), put("/c", 1), put("/d", 1)), "max-files")
	c.refusedBy(puts(put("/a", 90), put("/b", 11)), "max-content")
	c.must(puts(put("/b", 91), put("/b", 1), put("/b", 20)))
	c.refusedBy(puts(put("/a", 81)), "max-content")
	c.refusedBy(puts(put("/a", 5), put("/c", 71)), "max-content") // a file that shrinks counts in full until then
	c.must(puts(put("/a", 5), put("/c", 70)))
}

func TestLargerBranchCounts(t *testing.T) {
	c := newCell(t, Quotas{Files: 3, Content: 100})
	c.must(puts(put("/a", 10)))
	w := func(all ...*state.Write) []*state.Write { return all }
	c.refusedBy(either(w(put("/b", 91)), w(put("/c", 1))), "max-content")
	c.refusedBy(either(w(put("/b", 1)), w(put("/c", 91))), "max-content")
	c.refusedBy(either(w(put("/b", 1), put("/c", 1), put("/d", 1)), w(put("/a", 1))), "max-files")
	c.refusedBy(either(w(put("/a", 1)), w(put("/b", 1), put("/c", 1), put("/d", 1))), "max-files")
	c.must(either(w(put("/b", 90)), w(put("/a", 20), put("/c", 80))))
	c.must(either(w(put("/a", 20)), w(put("/c", 80))))
	c.must(either(w(put("/b", 0), put("/c", 1)), w(put("/c", 70), put("/d", 0))))
	// While it is under way, either branch may run.
	for _, branches := range [][2][]*state.Write{{w(put("/a", 30)), w(put("/d", 0))}, {w(put("/d", 0)), w(put("/a", 30))}} {
		u := c.under(either(branches[0], branches[1]))
		c.refusedBy(puts(put("/d", 1)), "max-content")
		c.ledger.Release(u.reserved)
	}
}

// TestAnswers: remembered answers count until the session ends. A repeated call
// gets its answer again. A call that only frees bytes is admitted, and other
// sessions have quotas of their own.
func TestAnswers(t *testing.T) {
	one := keyed("001", put("/file", 0)).AnswerAtMost()
	c := newCell(t, Quotas{SessionBytes: opening.Bytes() + 2*one})
	c.must(opening)
	c.must(&state.OpenSession{Session: "other", TTLMS: 1000})
	c.must(keyed("001", put("/file", 0)))
	c.must(keyed("002", put("/file", 0)))
	c.refusedBy(keyed("003", put("/file", 0)), "max-session-bytes")
	c.refusedBy(keyed("003", &state.Get{Path: "/none"}), "max-session-bytes") // the file may exist by then
	c.refusedBy(keyed("003", &state.Take{Path: "/lock", Mode: state.Exclusive}), "max-session-bytes")
	c.must(keyed("001", put("/file", 0)))
	c.must(puts(put("/file", 0)))
	c.must(keyed("004", &state.Delete{Path: "/file"}))
	c.must(&state.Transaction{Session: "other", Key: "001", Then: steps([]*state.Write{put("/file", 0)})})
	c.must(&state.CloseSession{Session: "s"})
	c.check()
}

// TestOldestAnswerMakesRoom: a session that overwrites its files needs room
// only for the answers that are remembered. While a keyed call is under way it
// is unknown which answer the next one replaces.
func TestOldestAnswerMakesRoom(t *testing.T) {
	write := func(i int) *state.Transaction { return keyed(fmt.Sprintf("%03d", i), put("/file", 0)) }
	long := keyed("999", put("/"+strings.Repeat("x", 5000), 0))
	c := newCell(t, Quotas{SessionBytes: opening.Bytes() + (state.MostAnswers-1)*write(0).AnswerAtMost() + long.AnswerAtMost()})
	c.must(opening)
	c.must(long)
	for i := range state.MostAnswers - 1 {
		c.must(write(i))
	}
	u := c.under(keyed("998", &state.Delete{Path: "/none"}))
	c.refusedBy(keyed("997", put("/"+strings.Repeat("y", 5000), 0)), "max-session-bytes")
	c.ledger.Release(u.reserved)
	c.must(keyed("997", put("/"+strings.Repeat("y", 5000), 0)))
	for i := range state.MostAnswers {
		c.must(write(state.MostAnswers + i))
	}
	c.check()
}

// TestWaitersUnderWay: calls that may have to wait count.
func TestWaitersUnderWay(t *testing.T) {
	c := newCell(t, Quotas{Waiters: 1})
	c.must(opening)
	acquire := func(handle string, wait state.WaitFor) *state.Acquire {
		return &state.Acquire{Session: "s", Path: "/x", Handle: handle, Mode: state.Exclusive, Wait: wait}
	}
	first := c.under(acquire("1", state.Persistent))
	if u := c.under(acquire("2", state.Persistent)); u.op.(*state.Acquire).Wait != state.NoWait {
		t.Error("a second position was admitted")
	}
	c.commit(1, first.op)
	c.ledger.Release(first.reserved)
	c.under(acquire("3", state.WhileConnected))
	c.refusedBy(acquire("4", state.WhileConnected), "max-waiters")
	c.under(acquire("4", state.NoWait))
}

// TestCountedAlready: a repeated acquire is not refused, and waits only if it
// already waits.
func TestCountedAlready(t *testing.T) {
	c := newCell(t, Quotas{Holds: 2, Waiters: 1})
	c.must(opening)
	acquire := func(handle string) *state.Acquire {
		return &state.Acquire{Session: "s", Path: "/x", Handle: handle, Mode: state.Exclusive, Wait: state.WhileConnected}
	}
	c.must(acquire("holds"))
	c.must(acquire("waits"))
	c.refusedBy(acquire("more"), "max-holds")
	for handle, wait := range map[string]state.WaitFor{"holds": state.NoWait, "waits": state.WhileConnected} {
		u := c.under(acquire(handle))
		if op := u.op.(*state.Acquire); op.Wait != wait {
			t.Errorf("the repeated call of %s is proposed as %+v", handle, op)
		}
		c.ledger.Release(u.reserved)
	}
}

// TestRules: the last rules are reserved for operators. An existing rule may be
// replaced, and a rule that grows no longer is not refused.
func TestRules(t *testing.T) {
	rule := func(path string, readers ...string) *state.PutRule {
		return &state.PutRule{Rule: access.Rule{Path: path, Lists: map[access.Permission][]string{access.Read: append([]string{}, readers...)}}}
	}
	c := newCell(t, Quotas{})
	c.must(rule("/p"))
	for i := range access.MaxRules - operatorsRules - 1 {
		c.under(rule(fmt.Sprint("/", i)))
	}
	if _, err := c.admit(rule("/q")); !errors.Is(err, lockapi.CodeTooMany) || !strings.Contains(err.Error(), "reserved for operators") {
		t.Error(err)
	}
	c.must(rule("/p", "user:a"))

	c = newCell(t, Quotas{Bytes: rule("/p", "user:a").Rule.Size()})
	c.must(rule("/p", "user:a"))
	c.refusedBy(rule("/p", "user:ab"), "max-bytes")
	c.refusedBy(rule("/q"), "max-bytes")
	c.must(rule("/p", "user:b"))
	c.must(rule("/p"))
}
