package conformance

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// files: contents and paths of any kind arrive unchanged.
func files(w *world) {
	w.begin()
	w.open(time.Minute)
	everything := make([]byte, 256)
	for i := range everything {
		everything[i] = byte(i)
	}
	for i, content := range [][]byte{{}, []byte("text\n"), everything, bytes.Repeat(everything, 400)} {
		for _, name := range []string{"/plain", "/with space & more?", "/käse/☃", "/50%25"} {
			path := fmt.Sprintf("%s/%d%s", w.prefix, i, name)
			w.d.do("put", fields{"session": "s", "path": path, "content_base64": content})
			got := w.d.do("get", fields{"cell": "c", "path": path})
			if got.text("content_base64") != base64.StdEncoding.EncodeToString(content) {
				w.Errorf("%s has another content", path)
			}
		}
	}
	path := w.prefix + "/x"
	w.d.begin("get", fields{"cell": "c", "path": path}).fails("not_found")
	if got := w.d.do("put", fields{"cell": "c", "path": path}); got.number("generation") != 1 || got.number("revision") <= 0 {
		w.Errorf("the new file is %v", got)
	}
	if got := w.d.do("put", fields{"cell": "c", "path": path}); got.number("generation") != 2 {
		w.Errorf("the changed file is %v", got)
	}
	for _, want := range []bool{true, false} {
		if got := w.d.do("delete", fields{"cell": "c", "path": path}); got.is("deleted") != want {
			w.Errorf("delete returns %v; it must be %t", got, want)
		}
	}
	w.d.begin("put", fields{"cell": "c", "path": "no/slash"}).fails("invalid_argument")
}

// conditions: a write happens only under its conditions.
func conditions(w *world) {
	w.begin()
	w.open(time.Minute)
	path := w.prefix + "/file"
	put := func(more fields) *pending {
		args := fields{"session": "s", "path": path}
		for name, value := range more {
			args[name] = value
		}
		return w.d.begin("put", args)
	}
	revision := put(fields{"if_absent": true}).ok().number("revision")
	put(fields{"if_absent": true}).fails("precondition_failed")
	put(fields{"if_revision": revision + 1000}).fails("precondition_failed")
	put(fields{"if_revision": revision}).ok()
	w.d.begin("delete", fields{"session": "s", "path": path, "if_revision": revision}).fails("precondition_failed")

	w.lock(w.prefix)
	put(fields{"while": "h"}).ok()
	w.gates.on(always(isKeepalive, &fault{silent: true})) // the client does not learn of the release
	w.forceRelease(w.prefix)
	put(fields{"while": "h"}).fails("not_held")
	if n := call[lockapi.FileStat](w, http.MethodGet, fileRoute(path)+"?as=json", nil).Generation; n != 3 {
		w.Errorf("the file was written %d times; it must be 3", n)
	}

	w.d.do("open", fields{"cell": "c", "as": "s2"})
	w.d.do("put", fields{"session": "s2", "path": path + "2", "ephemeral": true})
	w.d.do("get", fields{"cell": "c", "path": path + "2"})
	w.d.do("close", fields{"session": "s2"})
	w.d.begin("get", fields{"cell": "c", "path": path + "2"}).fails("not_found")
}

func fileRoute(path string) string { return lockapi.RouteFiles + lockapi.EscapePath(path) }

// list: a long list is read to its end.
func list(w *world) {
	w.begin()
	const n = 1100
	for i := 0; i < n; {
		var ops []any
		for ; len(ops) < 100; i++ {
			ops = append(ops, map[string]any{"put": map[string]any{"path": fmt.Sprintf("%s/%04d", w.prefix, i)}})
		}
		call[map[string]any](w, http.MethodPost, lockapi.RouteTransactions, map[string]any{"then": ops})
	}
	found, _ := w.d.do("list", fields{"cell": "c", "prefix": w.prefix + "/"})["files"].([]any)
	if len(found) != n {
		w.Fatalf("the list has %d files; there are %d", len(found), n)
	}
	for i, f := range found {
		if path := f.(map[string]any)["path"]; path != fmt.Sprintf("%s/%04d", w.prefix, i) {
			w.Fatalf("file %d of the list is %v", i, path)
		}
	}
}

// lostWrite: the answers to writes of a session are lost. Each write happens
// once, and succeeds.
func lostWrite(w *world) {
	w.begin()
	w.open(time.Minute)
	changes := func(q *request) bool {
		return q.method != http.MethodGet && q.path == lockapi.RouteFiles+w.prefix
	}
	seen := map[string]bool{}
	lost := func(op string, more fields) fields {
		w.Helper()
		before := len(w.gates.find(changes))
		w.gates.on(once(changes, &fault{lose: true}))
		args := fields{"session": "s", "path": w.prefix}
		for name, value := range more {
			args[name] = value
		}
		out := w.d.do(op, args)
		sent := w.gates.find(changes)[before:]
		keys := map[string]bool{}
		for _, q := range sent {
			keys[q.header.Get(lockapi.HeaderIdempotencyKey)] = true
		}
		if len(sent) < 2 || len(keys) != 1 || keys[""] {
			w.Errorf("%s was sent %d times, under the keys %v; it must be repeated under one key", op, len(sent), keys)
		}
		for key := range keys {
			if seen[key] {
				w.Error("two writes have the same key")
			}
			seen[key] = true
		}
		return out
	}
	lost("put", fields{"if_absent": true})
	if got := lost("put", nil); got.number("generation") != 2 {
		w.Errorf("after two writes the generation is %v", got.number("generation"))
	}
	if got := lost("delete", nil); !got.is("deleted") {
		w.Error("the deletion reports that there was no file")
	}
}

// manyWrites: the answers to one write are lost while the session makes many
// others. The cell still knows the answer to that one when it is repeated.
func manyWrites(w *world) {
	w.begin()
	w.open(time.Minute)
	first, others := is(http.MethodPut, lockapi.RouteFiles+w.prefix+"/first"), is(http.MethodPut, lockapi.RouteFiles+w.prefix+"/others")
	heal := w.gates.on(always(first, &fault{lose: true}))
	slow := w.d.begin("put", fields{"session": "s", "path": w.prefix + "/first"})
	w.eventually("the first write is executed", func() error {
		if found := w.gates.find(first); len(found) == 0 || found[0].status != http.StatusCreated {
			return errors.New("it is not")
		}
		return nil
	})
	var all []*pending
	for i := range 150 {
		all = append(all, w.d.begin("put", fields{"session": "s", "path": fmt.Sprintf("%s/others/%d", w.prefix, i)}))
	}
	for last, n := -1, 0; n > last; n = len(w.gates.find(others)) { // until they are made, or wait
		last = n
		time.Sleep(500 * time.Millisecond)
	}
	heal()
	for _, p := range append(all, slow) {
		if n := p.ok().number("generation"); n != 1 {
			w.Errorf("a file was written %v times", n)
		}
	}
}

// lostWriteWithoutSession: the answer to a write without a session is lost. The
// client does not repeat it.
func lostWriteWithoutSession(w *world) {
	w.begin()
	puts := is(http.MethodPut, lockapi.RouteFiles+w.prefix)
	w.gates.on(once(puts, &fault{lose: true}))
	w.d.begin("put", fields{"cell": "c", "path": w.prefix}).fails("outcome_unknown")
	if n := len(w.gates.find(puts)); n != 1 {
		w.Errorf("the write was sent %d times", n)
	}
}
