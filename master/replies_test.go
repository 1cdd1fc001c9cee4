package master

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// jsonSize returns the length of v in a reply.
func jsonSize(t *testing.T, v any) int {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	must(t, e.Encode(v))
	return b.Len()
}

// longMeta returns as much metadata as a session may have.
func longMeta() map[string]string {
	meta := map[string]string{}
	for i := range 15 {
		meta[fmt.Sprint(i)] = strings.Repeat("m", 4<<10)
	}
	return meta
}

// shortItem bounds the parts of a holder or waiter other than metadata.
const shortItem = 300

// holdOften makes a session hold a lock many times. The calls run concurrently:
// one by one they would take long.
func holdOften(t *testing.T, m *Master, path, session string, n int) {
	t.Helper()
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			if _, err := acquireLock(t, m, path, want(session, shared(0), handle(fmt.Sprint(i)))); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

// TestMetadataIsBounded: a session with much metadata has many holds and waits.
// A reply shows the metadata once, and the metadata of other sessions if it
// fits.
func TestMetadataIsBounded(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		long, short := longMeta(), map[string]string{"pid": "811", "\x01": "\""}
		a, b := named(t, m, "a", long), named(t, m, "b", short)
		holdOften(t, m, "/a", a, 300)
		mustHold(t, m, "/a", want(b, shared(0)))
		for i := range 50 {
			must(t, second(acquireLock(t, m, "/a", want(a, queueing, handle(fmt.Sprint("w", i))))))
		}
		must(t, second(acquireLock(t, m, "/a", want(b, queueing, handle("w")))))
		for _, stale := range []bool{false, true} {
			l, err := m.GetLock(t.Context(), &Read{Stale: stale}, &lockapi.GetLock{Path: "/a", Waiters: lockapi.MaxWaiters})
			if err != nil || len(l.Holders) != 301 || l.MoreHolders != 0 || len(l.Queue) != 51 {
				t.Fatalf("%d holders and %d more, %d waiters, %v", len(l.Holders), l.MoreHolders, len(l.Queue), err)
			}
			if n := jsonSize(t, l); n > lockapi.MaxReplyMeta+352*shortItem {
				t.Errorf("a read of %d bytes", n)
			}
			for i, got := range []map[string]string{l.Holders[0].SessionMeta, l.Holders[1].SessionMeta, l.Holders[300].SessionMeta, l.Queue[0].SessionMeta, l.Queue[50].SessionMeta} {
				if want := []map[string]string{long, nil, short, nil, short}[i]; !maps.Equal(got, want) {
					t.Errorf("%d: metadata of %d pairs, want %d", i, len(got), len(want))
				}
			}
			page, err := m.ListLocks(t.Context(), &Read{Stale: stale}, &lockapi.ListLocks{Prefix: "", Limit: 10})
			if n := jsonSize(t, page); err != nil || n > lockapi.MaxReplyMeta+302*shortItem || len(page.Locks[0].Holders) != 301 {
				t.Errorf("a list of %d bytes, %v", n, err)
			}
		}
	})
}

// TestRefusalsAreShort: a lock_held shows the first of many holders and counts
// the others, with little metadata. One holder with usual metadata is shown
// whole.
func TestRefusalsAreShort(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		meta := map[string]string{"pid": "811"}
		a, b, c := named(t, m, "a", longMeta()), named(t, m, "b", meta), named(t, m, "c", nil)
		mustHold(t, m, "/a", want(b, shared(0)))
		holdOften(t, m, "/a", a, 300)
		_, err := acquireLock(t, m, "/a", want(c))
		e := code(t, err, lockapi.CodeLockHeld)
		if n := jsonSize(t, e); n > lockapi.MaxRefusalMeta+102*shortItem || len(e.Holders) != lockapi.MaxRefusalHolders || e.MoreHolders != 201 ||
			!strings.Contains(e.Detail, "and by 300 more") {
			t.Errorf("%d bytes, %d holders and %d more: %s", n, len(e.Holders), e.MoreHolders, e.Detail)
		}
		if !maps.Equal(e.Holders[0].SessionMeta, meta) || e.Holders[1].SessionMeta != nil {
			t.Errorf("%+v, %d pairs", e.Holders[0], len(e.Holders[1].SessionMeta))
		}
		var back lockapi.Error
		if wire, err := json.Marshal(e); err != nil || json.Unmarshal(wire, &back) != nil || back.MoreHolders != 201 {
			t.Errorf("%+v, %v", back.MoreHolders, err)
		}
	})
}

// TestHoldersAreBounded: a read shows the first ones, in order, and counts the
// others.
func TestHoldersAreBounded(t *testing.T) {
	testrun.Sequential(t)
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a := newSession(t, m, 24*time.Hour)
		first := mustHold(t, m, "/a", want(a, shared(0)))
		holdOften(t, m, "/a", a, lockapi.MaxHolders+2)
		l, err := m.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"})
		if err != nil || len(l.Holders) != lockapi.MaxHolders || l.MoreHolders != 3 || l.Holders[0].Token != first.Token {
			t.Errorf("%d holders and %d more, %v", len(l.Holders), l.MoreHolders, err)
		}
		if page, err := m.ListLocks(t.Context(), &Read{Stale: true}, &lockapi.ListLocks{Prefix: "", Limit: 1}); err != nil || len(page.Locks[0].Holders) != lockapi.MaxHolders || page.Locks[0].MoreHolders != 3 {
			t.Errorf("%d locks, %v", len(page.Locks), err)
		}
	})
}

// TestPagesEnd: a page ends with the item that makes it a megabyte long. The
// pages together have each item once.
func TestPagesEnd(t *testing.T) {
	testrun.Sequential(t)
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		name := strings.Repeat("\x01", lockapi.MaxNameBytes)
		a := named(t, m, name, nil)
		for path := range 4 {
			holdOften(t, m, fmt.Sprint("/a", path), a, 700)
		}
		for range 40 {
			named(t, m, "", longMeta())
		}
		var locks, sessions, pages []string
		for after := ""; ; {
			page, err := m.ListLocks(t.Context(), &Read{}, &lockapi.ListLocks{Prefix: "", After: after, Limit: 1000})
			if n := jsonSize(t, page); err != nil || n > lockapi.PageBytes+700*(shortItem+6*len(name)) || len(page.Locks) == 0 {
				t.Fatalf("%d bytes, %v", n, err)
			}
			for _, l := range page.Locks {
				locks = append(locks, l.Path)
				if size, at := lockSize(&l), jsonSize(t, l); size < at || size > 2*at {
					t.Errorf("a lock of %d bytes counts for %d", at, size)
				}
			}
			if after = page.Next; after == "" {
				break
			}
			pages = append(pages, after)
		}
		if fmt.Sprint(locks) != "[/a0 /a1 /a2 /a3]" || len(pages) != 1 {
			t.Errorf("%v; pages end at %v", locks, pages)
		}
		pages = nil
		for after := ""; ; {
			page, err := m.ListSessions(t.Context(), &Read{}, &lockapi.ListSessions{After: after, Limit: 1000})
			if n := jsonSize(t, page); err != nil || n > 2*lockapi.PageBytes || len(page.Sessions) == 0 {
				t.Fatalf("%d bytes, %v", n, err)
			}
			for _, v := range page.Sessions {
				sessions = append(sessions, v.ID)
				if size, at := sessionSize(&v), jsonSize(t, v); size < at || size > 2*at {
					t.Errorf("a session of %d bytes counts for %d", at, size)
				}
			}
			if after = page.Next; after == "" {
				break
			}
			pages = append(pages, after)
		}
		if len(sessions) != 41 || len(pages) != 2 {
			t.Errorf("%d sessions on %d pages", len(sessions), len(pages)+1)
		}
	})
}

// TestCrowded: calls that take as long as a list are recognized beforehand.
func TestCrowded(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a := newSession(t, m, 24*time.Hour)
		holdOften(t, m, "/a", a, manyItems)
		if m.isCrowdedLock("/a") || m.isCrowdedSession(a) || m.isCrowdedLock("/free") || m.isCrowdedSession("nobody") {
			t.Error("a hundred are no crowd")
		}
		mustHold(t, m, "/a", want(a, shared(0), handle("one more")))
		if !m.isCrowdedLock("/a") || !m.isCrowdedSession(a) {
			t.Error("more are")
		}
	})
}
