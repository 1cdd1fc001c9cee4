package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// three returns the paths of three locks of the scenario.
func (w *world) three() []string { return []string{w.prefix + "/a", w.prefix + "/b", w.prefix + "/c"} }

// several returns the fields of a command for several locks.
func several(session, hold string, paths []string) fields {
	return fields{"session": session, "as": hold, "path": paths[0], "with": paths[1:]}
}

// lockSeveral acquires locks as a hold, and returns their tokens.
func (w *world) lockSeveral(hold string, paths []string) []uint64 {
	w.Helper()
	return w.tokensOf(w.d.do("lock", several("s", hold, paths)), paths)
}

// tokensOf requires the sequencers of all locks, in the order of the request,
// and returns their tokens.
func (w *world) tokensOf(got fields, paths []string) (tokens []uint64) {
	w.Helper()
	all, _ := got["sequencers"].([]any)
	if all == nil {
		w.d.lacks("several locks: it returns no sequencers")
	}
	for i, one := range all {
		text, _ := one.(string)
		q, err := lockapi.ParseSequencer(text)
		if err != nil || i >= len(paths) || q.Path != paths[i] {
			w.Fatalf("the sequencers are %v: %v; they must be of %v", all, err, paths)
		}
		tokens = append(tokens, q.Token)
	}
	if len(tokens) != len(paths) || got.number("token") != float64(tokens[0]) || got.text("sequencer") != all[0] {
		w.Fatalf("the result is %v; it must have the grants of %v", got, paths)
	}
	return tokens
}

func (w *world) wantHolders(paths []string, session string, tokens []uint64) {
	w.Helper()
	for i, path := range paths {
		w.wantHolder(path, session, tokens[i])
	}
}

func (w *world) allFree(paths []string) {
	w.Helper()
	for _, path := range paths {
		w.awaitFree(path)
	}
}

func (w *world) allHaveWaiters(paths []string, n int) {
	w.Helper()
	for _, path := range paths {
		w.wantWaiters(path, n)
	}
}

// severalLocks: a request gets all of its locks or none, and a release releases
// all.
func severalLocks(w *world) {
	w.begin()
	session, paths := w.open(time.Minute), w.three()
	w.wantHolders(paths, session, w.lockSeveral("h", paths))
	w.d.do("put", fields{"session": "s", "path": w.prefix, "while": "h"})
	w.d.do("unlock", fields{"hold": "h"})
	w.allFree(paths)
	w.wantGranted(w.rivalLocks(paths[1], w.rival()))
	others := []string{paths[0], paths[2]}
	w.isHeld("try_lock", several("s", "h2", paths))
	w.allFree(others)
	brief := several("s", "h3", paths)
	brief["wait_ms"] = 500
	w.isHeld("lock", brief)
	w.allHaveWaiters(paths, 0)
	w.allFree(others)
	w.forceRelease(paths[1])
	w.allFree(paths)
}

// severalWait: a request waits for all locks in one queue position, which
// survives broken connections, and has none of them until it has all.
func severalWait(w *world) {
	w.begin()
	session, paths := w.open(time.Minute), w.three()
	w.wantGranted(w.rivalLocks(paths[1], w.rival()))
	p := w.d.begin("lock", several("s", "h", paths))
	w.allHaveWaiters(paths, 1)
	behind := lockapi.NewLockRequest(w.rival())
	behind.Queue = true
	call[lockapi.Grant](w, http.MethodPut, lockRoute(paths[2]), behind)
	acquires := is(http.MethodPut, lockapi.RouteLocks+paths[0])
	asked := len(w.gates.find(acquires))
	w.gates.breakConnections()
	w.eventually("the waiter asks again", func() error {
		if len(w.gates.find(acquires)) == asked {
			return errors.New("it has not")
		}
		return nil
	})
	w.allHaveWaiters(paths[:2], 1)
	if l := w.read(paths[0]); p.isDone() || len(l.Holders) > 0 {
		w.Errorf("%s has the holders %+v before all locks are granted", paths[0], l.Holders)
	}
	w.forceRelease(paths[1])
	w.wantHolders(paths, session, w.tokensOf(p.ok(), paths))
	w.d.do("unlock", fields{"hold": "h"})
	w.allFree(paths[:2])
	if l := w.read(paths[2]); len(l.Holders) != 1 || l.Holders[0].Session != behind.Session {
		w.Errorf("%s is held by %+v; the next waiter must have it", paths[2], l.Holders)
	}
}

// severalOrders: sessions that name the same locks in different orders do not
// wait for each other, and hold them one at a time.
func severalOrders(w *world) {
	w.begin()
	abc := w.three()
	orders := [][]string{abc, {abc[2], abc[1], abc[0]}, {abc[1], abc[2], abc[0]}}
	for i := range orders {
		w.d.do("open", fields{"cell": "c", "as": fmt.Sprintf("s%d", i)})
	}
	for round := range 4 {
		under := map[int]*pending{}
		hold := func(i int) string { return fmt.Sprintf("h%d-%d", round, i) }
		for i, order := range orders {
			under[i] = w.d.begin("lock", several(fmt.Sprintf("s%d", i), hold(i), order))
		}
		for len(under) > 0 {
			var granted []int
			w.eventually("a session has its locks", func() error {
				for i, p := range under {
					if p.isDone() {
						granted = append(granted, i)
					}
				}
				if granted == nil {
					return errors.New("none has")
				}
				return nil
			})
			if len(granted) > 1 {
				w.Errorf("%d sessions have the locks", len(granted))
			}
			for _, i := range granted {
				w.tokensOf(under[i].ok(), orders[i])
				w.d.do("unlock", fields{"hold": hold(i)})
				delete(under, i)
			}
		}
	}
	w.allFree(abc)
}

// lossOfOne: the loss of one of several locks ends the hold. The session has the
// others until the release.
func lossOfOne(w *world) {
	w.begin()
	session, paths := w.open(5*time.Second), w.three()
	for i := range 2 {
		hold := fmt.Sprintf("h%d", i)
		tokens := w.lockSeveral(hold, paths)
		w.forceRelease(paths[i])
		if code := w.d.await("lost", hold).text("code"); code != "lock_lost" {
			w.Errorf("the hold was lost by %s; it must be lock_lost", code)
		}
		w.d.begin("put", fields{"session": "s", "path": w.prefix, "while": hold}).fails("not_held")
		w.awaitRenewals(w.renewals()+1, nil)
		if w.d.do("held", fields{"hold": hold}).is("held") {
			w.Error("the client believes in a hold with a lock that was released by force")
		}
		w.wantHolders(slices.Delete(slices.Clone(paths), i, i+1), session, slices.Delete(tokens, i, i+1))
		w.d.begin("resume", fields{"hold": hold, "as": hold + "again"}).fails("lock_lost")
		w.d.begin("unlock", fields{"hold": hold}).fails("lock_lost")
		w.allFree(paths)
	}
}

// unnoticedLoss: one of several locks is released by force, and no keepalive
// reports it. The cell refuses guarded writes, and the release reports the loss,
// although one of its answers is lost.
func unnoticedLoss(w *world) {
	w.begin()
	w.gates.on(always(isKeepalive, &fault{silent: true}))
	w.open(time.Minute)
	paths := w.three()
	w.lockSeveral("h", paths)
	w.forceRelease(paths[1])
	w.wantHeld("h")
	w.d.begin("put", fields{"session": "s", "path": w.prefix, "while": "h"}).fails("not_held")
	w.gates.on(once(is(http.MethodDelete, lockapi.RouteLocks+paths[0]), &fault{lose: true}))
	w.d.begin("unlock", fields{"hold": "h"}).fails("lock_lost")
	w.allFree(paths)
}

// lostGrants: the answer with the grants of several locks is lost, and one of
// them is released by force before the client asks again. It begins anew. A
// release that it sent before arrives later, and has no effect on the new grants.
func lostGrants(w *world) {
	w.begin()
	session, paths := w.open(time.Minute), w.three()
	w.gates.on(once(is(http.MethodPut, lockapi.RouteLocks+paths[0]), &fault{lose: true, modify: func(_ *http.Response, answer []byte) []byte {
		w.forceRelease(paths[1])
		return answer
	}}))
	releases := is(http.MethodDelete, lockapi.RouteLocks+paths[0])
	w.gates.on(once(releases, &fault{refuse: true}))
	tokens := w.lockSeveral("h", paths)
	if sent := w.gates.find(releases); len(sent) > 0 {
		call[lockapi.Released](w, http.MethodDelete, lockRoute(paths[0])+"?"+url.Values(sent[0].query).Encode(), nil)
	}
	w.wantHolders(paths, session, tokens)
	w.wantHeld("h")
	w.d.do("unlock", fields{"hold": "h"})
	w.allFree(paths)
}

// lateGrants: a request for several locks arrives after the client has given up.
// The client finds the grants and releases all.
func lateGrants(w *world) {
	w.begin()
	w.open(5 * time.Second)
	paths := w.three()
	w.lockSeveral("before", paths)
	w.d.do("unlock", fields{"hold": "before"})
	acquires := is(http.MethodPut, lockapi.RouteLocks+paths[0])
	late := make(chan struct{})
	arrive := sync.OnceFunc(func() { close(late) })
	defer arrive()
	heal := w.gates.on(always(acquires, &fault{until: late}))
	brief := several("s", "h", paths)
	brief["wait_ms"] = 500
	before := len(w.gates.find(acquires))
	w.d.begin("lock", brief).fails("lock_held", "no_master", "outcome_unknown")
	heal()
	arrive()
	w.eventually("the late request is granted", func() error {
		for _, q := range w.gates.find(acquires)[before:] {
			if q.status == http.StatusOK {
				return nil
			}
		}
		return errors.New("it is not")
	})
	w.allFree(paths)
}

// resumeSeveral: after a jeopardy a hold is resumed with all of its locks, unless
// one was released by force in the meantime.
func resumeSeveral(w *world) {
	w.begin()
	session := w.open(8 * time.Second) // a slow machine must keep it
	kept, gone := w.three(), []string{w.prefix + "/d", w.prefix + "/e"}
	tokens := w.lockSeveral("h", kept)
	w.lockSeveral("gone", gone)
	heal := w.gates.on(always(isKeepalive, &fault{lose: true}))
	w.d.await("lost", "h")
	w.d.await("lost", "gone")
	w.forceRelease(gone[1])
	heal()
	w.d.await("safe", "s")
	if again := w.tokensOf(w.d.do("resume", fields{"hold": "h", "as": "h2"}), kept); !slices.Equal(again, tokens) {
		w.Errorf("the resumed tokens are %v; they were %v", again, tokens)
	}
	w.d.begin("resume", fields{"hold": "gone", "as": "gone2"}).fails("lock_lost")
	w.d.begin("unlock", fields{"hold": "gone"}).fails("lock_lost", "jeopardy")
	w.allFree(gone)
	w.wantHolders(kept, session, tokens)
	w.d.do("unlock", fields{"hold": "h2"})
	w.allFree(kept)
}

// killedMasterOfSeveral: the master is killed while a session waits for several
// locks. The queue position survives it, and so do the grants.
func killedMasterOfSeveral(w *world) {
	w.beginAt(cell.New(w, cell.Options{}))
	w.open(15 * time.Second)
	second := w.d.do("open", fields{"cell": "c", "as": "s2", "ttl_ms": 15_000}).text("session")
	paths := w.three()
	w.lock(paths[1])
	p := w.d.begin("lock", several("s2", "h2", paths))
	w.allHaveWaiters(paths, 1)
	fail := func(do func(*cell.Replica) error) *cell.Replica {
		w.Helper()
		master, err := w.cell.WaitMaster(w.ctx())
		if err == nil {
			err = do(master)
		}
		if err != nil {
			w.Fatal(err)
		}
		return master
	}
	old := fail((*cell.Replica).Kill)
	w.lockAs("x", w.prefix+"/x")
	w.allHaveWaiters(paths, 1)
	if p.isDone() {
		w.Error("the locks were granted while one was held")
	}
	w.d.do("unlock", fields{"hold": "h"})
	tokens := w.tokensOf(p.ok(), paths)
	if err := old.Start(); err != nil {
		w.Fatal(err)
	}
	fail((*cell.Replica).Kill)
	w.d.do("put", fields{"session": "s2", "path": w.prefix, "while": "h2"})
	w.wantHolders(paths, second, tokens)
	w.wantHeld("h2")
	w.d.do("unlock", fields{"hold": "h2"})
	w.allFree(paths)
}

// wrongGrants: a request for several locks is answered with grants that do not
// fit. They make no hold, and the client releases the cell's real grants.
func wrongGrants(w *world) {
	w.begin()
	w.open(time.Minute)
	old := w.lockSeveral("h", w.three())[0]
	part := func(path any, token any) map[string]any {
		return map[string]any{"path": path, "token": token, "sequencer": fmt.Sprintf("exclusive:%v:%v", token, path)}
	}
	for name, lie := range map[string]func(b, c map[string]any) any{
		"none":      func(_, _ map[string]any) any { return nil },
		"number":    func(_, _ map[string]any) any { return 2 },
		"fewer":     func(b, _ map[string]any) any { return []any{b} },
		"more":      func(b, c map[string]any) any { return []any{b, c, part("/other", c["token"])} },
		"order":     func(b, c map[string]any) any { return []any{c, b} },
		"path":      func(b, c map[string]any) any { return []any{b, part("/other", c["token"])} },
		"token":     func(b, c map[string]any) any { return []any{b, part(c["path"], old)} },
		"zero":      func(b, c map[string]any) any { return []any{b, part(c["path"], 0)} },
		"sequencer": func(b, c map[string]any) any { c["sequencer"] = b["sequencer"]; return []any{b, c} },
	} {
		paths := []string{w.prefix + "/" + name, w.prefix + "/" + name + "/b", w.prefix + "/" + name + "/c"}
		heal := w.gates.on(always(is(http.MethodPut, lockapi.RouteLocks+paths[0]), &fault{modify: func(resp *http.Response, answer []byte) []byte {
			parts, _ := field(answer, "with").([]any)
			if resp.StatusCode != http.StatusOK || len(parts) != 2 {
				return answer
			}
			token := uint64(number(answer, "token"))
			return changed(answer, map[string]any{"with": lie(part(paths[1], token+1), part(paths[2], token+2))})
		}}))
		brief := several("s", name, paths)
		brief["wait_ms"] = 1000
		w.d.begin("lock", brief).fails("internal", "no_master", "outcome_unknown", "lock_held")
		heal()
		w.allFree(paths)
	}
	w.wantHeld("h")
}
