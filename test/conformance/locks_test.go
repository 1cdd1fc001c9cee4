package conformance

import (
	"net/http"
	"time"
)

// lostGrant: the answer to an acquire is lost. The client asks again for the
// same grant, and gets it once.
func lostGrant(w *world) {
	w.begin()
	session := w.open(10 * time.Second)
	acquires := is(http.MethodPut, lockRoute(w.prefix))
	w.gates.on(once(acquires, &fault{lose: true}))
	token := w.lock(w.prefix)
	w.wantHolder(w.prefix, session, token)
	handles := map[any]bool{}
	sent := w.gates.find(acquires)
	for _, q := range sent {
		handles[field(q.body, "handle")] = true
	}
	if len(sent) < 2 || len(handles) != 1 {
		w.Errorf("the acquire was sent %d times, with the handles %v; it must be repeated with one handle", len(sent), handles)
	}
	w.d.do("unlock", fields{"hold": "h"})
	w.awaitFree(w.prefix)
	w.lockAs("again", w.prefix)
	for _, q := range w.gates.find(acquires)[len(sent):] {
		if handles[field(q.body, "handle")] {
			w.Error("a new hold has the handle of the former one")
		}
	}
}
