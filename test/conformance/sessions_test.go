package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// leaseCountsFromSending: the answers of keepalives are late, and the lease is
// no longer for that.
func leaseCountsFromSending(w *world) {
	const ttl = 8 * time.Second
	w.begin()
	w.gates.on(always(isKeepalive, &fault{late: 300 * time.Millisecond}))
	w.open(ttl)
	w.lock(w.prefix)
	w.awaitRenewals(2, func() { w.checkLease(ttl) })
	w.checkLease(ttl)
	w.wantHeld("h")
}

// leaseOfALateOpening: the answer to the opening is late, and the lease is no
// longer for that.
func leaseOfALateOpening(w *world) {
	const ttl = 5 * time.Second
	w.begin()
	w.gates.on(always(isOpening, &fault{late: 500 * time.Millisecond}))
	w.gates.on(always(isKeepalive, &fault{silent: true}))
	w.open(ttl)
	w.checkLease(ttl)
}

// pausedClient: a client that was stopped for longer than its lease does not
// believe in its holds when it continues. It has many sessions, so that some
// are asked before a timer has run.
func pausedClient(w *world) {
	const ttl, sessions = 3 * time.Second, 5
	w.begin()
	for i := range sessions {
		n := decimal(uint64(i))
		w.d.do("open", fields{"cell": "c", "as": "s" + n, "ttl_ms": ttl.Milliseconds()})
		w.d.do("lock", fields{"session": "s" + n, "as": "h" + n, "path": w.prefix + "/" + n})
	}
	w.d.pause()
	for i := range sessions {
		w.awaitFree(w.prefix + "/" + decimal(uint64(i)))
	}
	var holds, states []*pending
	for i := range sessions {
		n := decimal(uint64(i))
		holds = append(holds, w.d.begin("held", fields{"hold": "h" + n}))
		states = append(states, w.d.begin("state", fields{"session": "s" + n}))
	}
	w.d.resume()
	for i := range sessions {
		if holds[i].ok().is("held") {
			w.Error("after the pause the client believes in a hold that has ended")
		}
		if states[i].ok().text("state") == "safe" {
			w.Error("after the pause a session is safe")
		}
		w.d.await("lost", "h"+decimal(uint64(i)))
	}
}

// cutOff: a client that reaches no replica gives up its hold before another
// session can get the lock, and reports it.
func cutOff(w *world) {
	const ttl = 3 * time.Second
	w.begin()
	w.open(ttl)
	w.lock(w.prefix)
	granted := w.rivalLocks(w.prefix, w.rival())
	w.wantWaiters(w.prefix, 1)
	w.gates.cut()
	last := w.lastBelief("h")
	if late := last.Sub(w.leaseBound(ttl, any200)); late > 0 {
		w.Errorf("the client believed in its hold %v longer than its lease", late)
	}
	w.d.await("jeopardy", "s")
	if code := w.d.await("lost", "h").text("code"); code != "jeopardy" {
		w.Errorf("the hold was lost by %s; it must be jeopardy", code)
	}
	if early := last.Sub(w.wantGranted(granted)); early > 0 {
		w.Errorf("the client believed in its hold %v after another had the lock", early)
	}
	w.gates.heal()
	w.d.await("expired", "s")
	w.d.begin("lock", fields{"session": "s", "as": "h2", "path": w.prefix, "wait_ms": 1000}).fails("session_expired")
}

// jeopardy: the answers of keepalives are lost until the local lease ends. The
// cell still knows the session, which is safe again later; its hold is not.
func jeopardy(w *world) {
	w.begin()
	w.open(8 * time.Second) // a slow machine must keep it
	first := w.lock(w.prefix)
	heal := w.gates.on(always(isKeepalive, &fault{lose: true}))
	w.d.await("jeopardy", "s")
	w.d.await("lost", "h")
	heal()
	w.d.await("safe", "s")
	if w.d.do("held", fields{"hold": "h"}).is("held") {
		w.Error("a hold that had ended counts again")
	}
	if _, err := w.d.begin("unlock", fields{"hold": "h"}).result(); err != nil && err.Code != "jeopardy" {
		w.Errorf("unlock: %s: %s", err.Code, err.Message)
	}
	if token := w.lockAs("h2", w.prefix); token <= first {
		w.Errorf("the token is %d after %d", token, first)
	}
}

// resume: after a jeopardy a hold is resumed with its token, unless the lock
// was released by force in the meantime.
func resume(w *world) {
	w.begin()
	w.open(8 * time.Second) // a slow machine must keep it
	kept := w.lock(w.prefix)
	w.lockAs("gone", w.prefix+"/gone")
	heal := w.gates.on(always(isKeepalive, &fault{lose: true}))
	w.d.await("lost", "h")
	w.d.await("lost", "gone")
	w.forceRelease(w.prefix + "/gone")
	heal()
	w.d.await("safe", "s")
	if token := w.d.do("resume", fields{"hold": "h", "as": "h2"}).number("token"); token != float64(kept) {
		w.Errorf("the resumed token is %v; it was %d", token, kept)
	}
	w.d.begin("resume", fields{"hold": "gone", "as": "gone2"}).fails("lock_lost")
	w.d.do("unlock", fields{"hold": "h2"})
	w.awaitFree(w.prefix)
	w.d.begin("resume", fields{"hold": "h", "as": "h3"}).fails("lock_lost", "unlocked")
}

// keepalivesWait: keepalives wait at the master, and are few.
func keepalivesWait(w *world) {
	w.begin()
	w.open(6 * time.Second)
	w.awaitRenewals(2, nil)
	longest, sent := 0.0, w.gates.find(isKeepalive)
	for _, q := range sent {
		longest = max(longest, number(q.answer, "held_ms"))
	}
	if longest < 1000 || len(sent) > 20 {
		w.Errorf("of %d keepalives the longest was held %v ms; they must wait at the master", len(sent), longest)
	}
}

// forcedRelease: an operator releases the lock by force, and the holder learns
// it by the keepalive that waits.
func forcedRelease(w *world) {
	w.begin()
	w.open(time.Minute)
	w.lock(w.prefix)
	before := w.renewals()
	w.forceRelease(w.prefix)
	if code := w.d.await("lost", "h").text("code"); code != "lock_lost" {
		w.Errorf("the hold was lost by %s; it must be lock_lost", code)
	}
	if n := w.renewals() - before; n > 2 {
		w.Errorf("the client learned the loss by keepalive %d", n)
	}
	if w.d.do("held", fields{"hold": "h"}).is("held") {
		w.Error("the client believes in a hold that was released by force")
	}
	w.eventually("the event is acknowledged", func() error {
		seq, acked := 0.0, 0.0
		for _, q := range w.gates.find(isKeepalive) {
			acked = max(acked, number(q.body, "ack"))
			events, _ := field(q.answer, "events").([]any)
			for _, e := range events {
				n, _ := e.(map[string]any)["seq"].(float64)
				seq = max(seq, n)
			}
		}
		if seq == 0 || acked < seq {
			return fmt.Errorf("the event %v was sent, and %v acknowledged", seq, acked)
		}
		return nil
	})
	w.d.begin("unlock", fields{"hold": "h"}).fails("lock_lost")
	w.lockAs("h2", w.prefix)
	w.wantHeld("h2")
}

// expiredSession: the cell ends the session, and the client reports it.
func expiredSession(w *world) {
	w.begin()
	id := w.open(time.Minute)
	w.lock(w.prefix)
	if _, err := w.cell.Replicas()[0].Call(w.ctx(), http.MethodDelete, lockapi.RouteSessions+"/"+id, nil, nil); err != nil {
		w.Fatal(err)
	}
	w.d.await("expired", "s")
	if code := w.d.await("lost", "h").text("code"); code != "session_expired" {
		w.Errorf("the hold was lost by %s; it must be session_expired", code)
	}
	w.d.begin("lock", fields{"session": "s", "as": "h2", "path": w.prefix, "wait_ms": 1000}).fails("session_expired")
	w.d.begin("put", fields{"session": "s", "path": w.prefix}).fails("session_expired")
}

// answersTooSoon: keepalives are answered at once, also with ever new events.
// The client pauses between them.
func answersTooSoon(w *world) {
	w.begin()
	w.open(5 * time.Second)
	atOnce := func(body []byte) []byte { return changed(body, map[string]any{"wait_ms": 0}) }
	w.gates.on(always(isKeepalive, &fault{body: atOnce}))
	w.paces("keepalives answered at once", isKeepalive)
	var seq atomic.Uint64
	w.gates.on(always(isKeepalive, &fault{body: atOnce, modify: func(_ *http.Response, answer []byte) []byte {
		return changed(answer, map[string]any{"events": []lockapi.Event{{Seq: seq.Add(1), Type: lockapi.EventLockGranted, Path: w.prefix, Handle: "x"}}})
	}}))
	w.paces("keepalives with events", isKeepalive)
}

// paces requires pauses between requests, for a second and a half.
func (w *world) paces(what string, matches func(*request) bool) {
	w.Helper()
	began, before := time.Now(), len(w.gates.find(matches))
	time.Sleep(1500 * time.Millisecond)
	n := len(w.gates.find(matches)) - before
	if most := 10 + int(time.Since(began)/(10*time.Millisecond)); n > most {
		w.Errorf("%s: the client made %d calls without a pause", what, n)
	}
}

// problem makes a gate answer with a refusal.
func problem(code lockapi.Code, retryAfter string) func(http.ResponseWriter) {
	return func(out http.ResponseWriter) {
		out.Header().Set("Content-Type", "application/problem+json")
		out.Header().Set("Retry-After", retryAfter)
		out.WriteHeader(code.Status())
		_ = json.NewEncoder(out).Encode(lockapi.Errorf(code, "the suite refuses this"))
	}
}

// noMaster: the cell has no master for a while, and the client waits for one,
// with pauses.
func noMaster(w *world) {
	w.begin()
	w.open(time.Minute)
	heal := w.gates.on(always(is(http.MethodPut, lockapi.RouteFiles), &fault{reply: problem(lockapi.CodeNoMaster, "1")}))
	p := w.d.begin("put", fields{"session": "s", "path": w.prefix})
	w.paces("calls without a master", is(http.MethodPut, lockapi.RouteFiles))
	if p.isDone() {
		p.ok()
		w.Error("put succeeded without a master")
	}
	heal()
	p.ok()
}

// tooMany: a quota is used up. The client reports it, or waits as long as the
// cell asks for. A keepalive is repeated sooner.
func tooMany(w *world) {
	w.begin()
	w.gates.on(once(isKeepalive, &fault{reply: problem(lockapi.CodeTooMany, "3600")}))
	w.open(time.Minute)
	w.awaitRenewals(1, nil)
	puts := is(http.MethodPut, lockapi.RouteFiles)
	w.gates.on(once(puts, &fault{reply: problem(lockapi.CodeTooMany, "2")}))
	_, refused := w.d.begin("put", fields{"session": "s", "path": w.prefix}).result()
	sent := w.gates.find(puts)
	switch {
	case refused != nil && refused.Code != "too_many":
		w.Errorf("put failed with %s; it must be too_many", refused.Code)
	case refused != nil && len(sent) != 1:
		w.Errorf("put failed after %d calls", len(sent))
	case refused == nil && sent[1].arrived.Sub(sent[0].arrived) < 2*time.Second:
		w.Errorf("put was repeated after %v; the cell asked for 2 s", sent[1].arrived.Sub(sent[0].arrived))
	}
}

// lostOpening: the answer to the opening is lost. The client repeats the
// call, and there is one session.
func lostOpening(w *world) {
	w.begin()
	w.gates.on(once(isOpening, &fault{lose: true}))
	w.open(time.Minute)
	keys := map[string]bool{}
	sent := w.gates.find(isOpening)
	for _, q := range sent {
		keys[q.header.Get(lockapi.HeaderIdempotencyKey)] = true
	}
	if len(sent) < 2 || len(keys) != 1 || keys[""] {
		w.Errorf("the opening was sent %d times, under the keys %v; it must be repeated under one key", len(sent), keys)
	}
	n := 0
	for _, s := range call[lockapi.SessionList](w, http.MethodGet, lockapi.RouteSessions+"?limit=1000", nil).Sessions {
		if s.Name == w.Name() {
			n++
		}
	}
	if n != 1 {
		w.Errorf("there are %d sessions; there must be 1", n)
	}
}

// closeFrees: a closed session's locks are free at once.
func closeFrees(w *world) {
	w.begin()
	w.open(time.Minute)
	w.lock(w.prefix)
	w.d.do("close", fields{"session": "s"})
	if l := w.read(w.prefix); len(l.Holders) > 0 {
		w.Errorf("the lock is held by %+v after the close", l.Holders)
	}
	if w.d.do("held", fields{"hold": "h"}).is("held") {
		w.Error("the client believes in a hold of a closed session")
	}
	w.d.begin("lock", fields{"session": "s", "as": "h2", "path": w.prefix}).fails("session_closed")
	if n := len(w.d.find("lost", "h")) + len(w.d.find("expired", "s")); n > 0 {
		w.Error("the close was reported as a loss")
	}
}
