package conformance

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// otherCell: replicas of another cell answer, for example because it was
// restored from a backup. The client ignores them, in particular that they do
// not know its session.
func otherCell(w *world) {
	w.begin()
	w.open(20 * time.Second)
	w.lock(w.prefix)
	path := w.known()
	get := func() {
		w.Helper()
		w.wantContent(w.d.do("get", fields{"cell": "c", "path": path}), path)
	}
	get()
	elsewhere := w.other().URLs()[0]
	heal := w.gates.on(always(func(q *request) bool { return q.gate == 0 }, &fault{to: elsewhere}))
	get()
	w.d.do("put", fields{"session": "s", "path": w.prefix})
	heal()
	heal = w.gates.on(always(func(*request) bool { return true }, &fault{to: elsewhere}))
	w.gates.breakConnections() // so that the keepalive that waits is asked again
	w.d.begin("get", fields{"cell": "c", "path": path, "timeout_ms": 2000}).fails("other_cell", "no_master")
	w.eventually("the other cell does not know the session", func() error {
		for _, q := range w.gates.find(isKeepalive) {
			if q.status == http.StatusNotFound {
				return nil
			}
		}
		return fmt.Errorf("it was not asked")
	})
	heal()
	get()
	w.wantHeld("h")
}

// wantContent requires the content of a file.
func (w *world) wantContent(got fields, content string) {
	w.Helper()
	if got.text("content_base64") != base64.StdEncoding.EncodeToString([]byte(content)) {
		w.Errorf("the file is %v; its content must be %q", got, content)
	}
}

// olderEpoch: keepalives are answered by a master of an earlier epoch, which
// must not extend the lease.
func olderEpoch(w *world) {
	const ttl, later = 4 * time.Second, 1000
	w.begin()
	present := func(_ *http.Response, answer []byte) []byte {
		return changed(answer, map[string]any{"epoch": number(answer, "epoch") + later})
	}
	heal := w.gates.on(always(func(q *request) bool { return isKeepalive(q) || isOpening(q) }, &fault{modify: present}))
	w.open(ttl)
	w.lock(w.prefix)
	w.awaitRenewals(1, nil)
	heal()
	last := w.lastBelief("h")
	of := func(q *request) bool { return number(q.answer, "epoch") > later }
	if late := last.Sub(w.leaseBound(ttl, of)); late > 0 {
		w.Errorf("answers of an earlier epoch extended the lease by %v", late)
	}
	w.d.await("jeopardy", "s")
}

// longerLease: keepalives are answered with a longer lease than the session has.
func longerLease(w *world) {
	const ttl = 3 * time.Second
	w.begin()
	w.gates.on(always(isKeepalive, &fault{modify: func(_ *http.Response, answer []byte) []byte {
		return changed(answer, map[string]any{"ttl_ms": 600_000, "held_ms": 600_000})
	}}))
	w.open(ttl)
	w.lock(w.prefix)
	check := func() {
		w.Helper()
		if n := w.d.do("state", fields{"session": "s"}).number("remaining_ms"); n > float64(ttl.Milliseconds()) {
			w.Fatalf("%v ms remain of a session with a ttl of %v", n, ttl)
		}
	}
	w.awaitRenewals(3, check)
	time.Sleep(100 * time.Millisecond)
	check()
}

// wrongGrant: an acquire is answered with a grant of something else, which is
// no hold. The client releases the cell's real grant.
func wrongGrant(w *world) {
	w.begin()
	w.open(time.Minute)
	token := w.lock(w.prefix)
	for name, lie := range map[string]map[string]any{
		"path":      {"path": "/other"},
		"session":   {"session": "other"},
		"handle":    {"handle": "other"},
		"mode":      {"mode": "shared"},
		"token":     {"token": token, "sequencer": fmt.Sprintf("exclusive:%d:%s/token", token, w.prefix)},
		"sequencer": {"sequencer": "exclusive:1:/other"},
		"zero":      {"token": 0, "sequencer": fmt.Sprintf("exclusive:0:%s/zero", w.prefix)},
	} {
		path := w.prefix + "/" + name
		heal := w.gates.on(always(is(http.MethodPut, lockapi.RouteLocks+path), &fault{modify: func(resp *http.Response, answer []byte) []byte {
			if resp.StatusCode != http.StatusOK {
				return answer
			}
			return changed(answer, lie)
		}}))
		w.d.begin("lock", fields{"session": "s", "as": name, "path": path, "wait_ms": 1000}).fails("internal", "no_master", "outcome_unknown", "lock_held")
		heal()
		w.awaitFree(path)
	}
	w.wantHeld("h")
}

// wrongRead: a read is answered with something else than it asked for.
func wrongRead(w *world) {
	w.begin()
	path := w.known()
	honest := func() { w.wantContent(w.d.do("get", fields{"cell": "c", "path": path}), path) }
	honest()
	for name, lie := range map[string]func(*http.Response, []byte) []byte{
		"stale": func(resp *http.Response, answer []byte) []byte {
			resp.Header.Set(lockapi.HeaderStale, "true")
			return answer
		},
		"path": func(_ *http.Response, answer []byte) []byte {
			return changed(answer, map[string]any{"path": "/other"})
		},
		"content": func(_ *http.Response, answer []byte) []byte {
			return changed(answer, map[string]any{"content": "other"})
		},
		"revision": func(resp *http.Response, answer []byte) []byte {
			resp.Header.Set(lockapi.HeaderRevision, "1")
			return changed(answer, map[string]any{"revision": 1, "instance": 1})
		},
	} {
		heal := w.gates.on(always(is(http.MethodGet, lockapi.RouteFiles+path), &fault{modify: lie}))
		if got, err := w.d.begin("get", fields{"cell": "c", "path": path, "timeout_ms": 1500}).result(); err == nil {
			w.Errorf("%s: the client believed a wrong answer: %v", name, got)
		}
		heal()
	}
	honest()
}

// webPage: a web server and a gateway answer in place of the replicas that are
// not the master. The client may report that, and finds the third.
func webPage(w *world) {
	w.start(w.shared())
	master, err := w.cell.WaitMaster(w.ctx())
	if err != nil {
		w.Fatal(err)
	}
	is := slices.Index(w.cell.Replicas(), master)
	w.gates.list[is], w.gates.list[2] = w.gates.list[2], w.gates.list[is] // called last
	w.d.do("connect", fields{"as": "c", "urls": w.gates.urls()})
	path := w.known()
	page := func(status int) func(http.ResponseWriter) {
		return func(out http.ResponseWriter) {
			out.Header().Set("Content-Type", "text/html")
			out.WriteHeader(status)
			_, _ = fmt.Fprint(out, "<html>It works!</html>")
		}
	}
	for i, status := range []int{http.StatusOK, http.StatusBadGateway} {
		at := w.gates.list[i].number
		w.gates.on(always(func(q *request) bool { return q.gate == at }, &fault{reply: page(status)}))
	}
	w.wantContent(w.insist("get", fields{"cell": "c", "path": path}), path)
	w.insist("open", fields{"cell": "c", "as": "s", "ttl_ms": 10_000})
	w.insist("lock", fields{"session": "s", "as": "h", "path": w.prefix})
	w.insist("put", fields{"session": "s", "path": w.prefix, "if_absent": true})
	w.wantHeld("h")
}

// insist makes a call that may fail, before a client finds the replica that
// answers.
func (w *world) insist(op string, args fields) fields {
	w.Helper()
	for range 5 {
		out, err := w.d.begin(op, args).result()
		if err == nil {
			return out
		}
		if err.Code != "internal" && err.Code != "outcome_unknown" && err.Code != "no_master" {
			w.Fatalf("%s: %s: %s", op, err.Code, err.Message)
		}
	}
	return w.d.do(op, args)
}
