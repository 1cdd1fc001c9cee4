package master

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// TestLargeResultsAreRefused: the refusal names the bound and the operation,
// changes nothing, and is repeated under a key.
func TestLargeResultsAreRefused(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := sessionOfCaller(t, m, lockapi.PrincipalRoot)
		write := func(content string) {
			t.Helper()
			must(t, second(m.WriteFile(t.Context(), new(root(WriteAt)), &lockapi.WriteFile{Path: "/p/f", Content: []byte(content)})))
		}
		write(strings.Repeat("x", lockapi.MaxFileBytes))
		get := lockapi.Operation{Get: &lockapi.FileOperation{Path: "/p/f"}}
		put := lockapi.Operation{Put: &lockapi.WriteOperation{Path: "/p/g", Content: new("x")}}
		ask := func(key string, ops ...lockapi.Operation) (TransactionDone, error) {
			return m.Transact(t.Context(), new(using(root(AnyCaller), s)), &lockapi.Transact{Key: key, Transaction: lockapi.Transaction{Session: s, Then: ops}})
		}
		if done, err := ask("", slices.Repeat([]lockapi.Operation{get}, 4)...); err != nil || len(done.Results) != 4 {
			t.Fatalf("%d results, %v", len(done.Results), err)
		}
		many := append([]lockapi.Operation{put}, slices.Repeat([]lockapi.Operation{get}, 127)...)
		for i, key := range []string{"", "k", "k"} {
			_, err := ask(key, many...)
			e := code(t, err, lockapi.CodeTooLarge)
			if e.Operation == nil || *e.Operation != 5 || !strings.Contains(e.Detail, "operation 5") || !strings.Contains(e.Detail, "1048576 bytes") || e.Replayed != (i == 2) {
				t.Errorf("%+v", e)
			}
			if _, there := n.State().File("/p/g"); there {
				t.Error("it has changed a file")
			}
			if i == 1 {
				write("x")
			}
		}
	})
}

// TestListsEndAtABound, including lists that were whole, or short, before.
func TestListsEndAtABound(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		var members []string
		for i := range 1000 {
			members = append(members, fmt.Sprintf("user:%s%04d", strings.Repeat("\"", 200), i))
		}
		for i := range 5 {
			must(t, second(m.PutGroup(t.Context(), new(root(Operate)), &lockapi.PutGroup{Name: fmt.Sprint(i), GroupMembers: lockapi.GroupMembers{Members: members}})))
		}
		var names []string
		for page, after := 0, ""; ; page++ {
			list, err := m.ListGroups(t.Context(), &Read{Caller: new(root(Operate))}, &lockapi.ListGroups{After: after})
			must(t, err)
			if n := jsonSize(t, list); n > 2*lockapi.PageBytes || page > 5 {
				t.Fatalf("page %d has %d bytes", page, n)
			}
			for _, g := range list.Groups {
				names = append(names, g.Name)
			}
			if after = list.Next; after == "" {
				break
			}
		}
		if fmt.Sprint(names) != "[0 1 2 3 4]" {
			t.Error(names)
		}
	})
}

// An error quotes only a part of a long session id that the caller made up.
func TestUnknownIDsAreQuotedInPart(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		made := strings.Repeat("é", 30_000)
		for name, call := range map[string]func(context.Context) error{
			"keepalive": func(ctx context.Context) error {
				_, err := m.KeepAlive(ctx, &Caller{}, &lockapi.KeepAlive{Session: made})
				return err
			},
			"read": func(ctx context.Context) error {
				_, err := m.GetSession(ctx, &Read{}, &lockapi.GetSession{Session: made})
				return err
			},
			"stale read": func(ctx context.Context) error {
				_, err := m.GetSession(ctx, &Read{Stale: true}, &lockapi.GetSession{Session: made})
				return err
			},
			"acquire": func(ctx context.Context) error {
				_, err := acquireLock(t, m, "/a", want(made))
				return err
			},
			"release": func(ctx context.Context) error {
				_, err := m.ReleaseLock(ctx, &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: made})
				return err
			},
			"transfer": func(ctx context.Context) error {
				_, err := m.TransferMastership(ctx, &Caller{}, &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: made}})
				return err
			},
		} {
			var e *lockapi.Error
			if err := call(t.Context()); !errors.As(err, &e) {
				t.Errorf("%s: %v", name, err)
			} else if !strings.Contains(e.Detail, "éé") || len(e.Detail) > 300 {
				t.Errorf("%s: %d bytes: %.100s", name, len(e.Detail), e.Detail)
			}
		}
	})
}
