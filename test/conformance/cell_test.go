package conformance

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// killedMaster: the master is killed. Holds and queue positions survive it.
func killedMaster(w *world) { w.overFailOver((*cell.Replica).Kill, nil) }

// pausedMaster: the master hangs, with its connections open. The client finds
// the next one in time, and does not believe the old one when it continues.
func pausedMaster(w *world) { w.overFailOver((*cell.Replica).Pause, (*cell.Replica).Continue) }

// overFailOver requires that locks survive a fault of the master.
func (w *world) overFailOver(fail, after func(*cell.Replica) error) {
	w.beginAt(cell.New(w, cell.Options{}))
	w.open(15 * time.Second)
	w.d.do("open", fields{"cell": "c", "as": "s2", "ttl_ms": 15_000})
	first := w.lock(w.prefix)
	waiter := w.d.begin("lock", fields{"session": "s2", "as": "h2", "path": w.prefix})
	w.wantWaiters(w.prefix, 1)
	old, err := w.cell.WaitMaster(w.ctx())
	if err == nil {
		err = fail(old)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.lockAs("x", w.prefix+"/x")
	w.wantHeld("h")
	if waiter.isDone() {
		w.Error("the lock was granted twice")
	}
	w.d.do("unlock", fields{"hold": "h"})
	if token := waiter.ok().number("token"); token <= float64(first) {
		w.Errorf("the token is %v after %d", token, first)
	}
	if after != nil {
		if err := after(old); err != nil {
			w.Fatal(err)
		}
	}
	w.d.do("put", fields{"session": "s", "path": w.prefix})
	w.wantHeld("h2")
	w.wantHeld("x")
	for _, name := range []string{"h", "h2", "x"} {
		if lost := w.d.find("lost", name); len(lost) > 0 {
			w.Errorf("a hold was lost: %v", lost)
		}
	}
}

// killedMasterWrites: the master is killed while a session writes. Each write
// happens once.
func killedMasterWrites(w *world) {
	w.beginAt(cell.New(w, cell.Options{}))
	w.open(10 * time.Second)
	const n = 40
	for i := 1; i <= n; i++ {
		p := w.d.begin("put", fields{"session": "s", "path": w.prefix})
		if i == n/4 || i == n/2 {
			master, err := w.cell.WaitMaster(w.ctx())
			if err == nil {
				err = master.Kill()
			}
			if err == nil && i == n/4 {
				err = master.Start()
			}
			if err != nil {
				w.Fatal(err)
			}
		}
		if got := p.ok().number("generation"); got != float64(i) {
			w.Fatalf("write %d made generation %v", i, got)
		}
	}
}

// hangingReplica: the first replica accepts connections and does not answer.
func hangingReplica(w *world) {
	w.begin()
	w.gates.on(always(func(q *request) bool { return q.gate == 0 }, &fault{silent: true}))
	w.d.do("get", fields{"cell": "c", "path": w.known()})
	w.open(10 * time.Second)
	w.lock(w.prefix)
	w.d.do("put", fields{"session": "s", "path": w.prefix})
	w.wantHeld("h")
}

// drippingReplica: the first replica answers byte by byte and never ends. Later
// the keepalives' replica does so; the hold survives at another one.
func drippingReplica(w *world) {
	w.begin()
	w.gates.on(always(func(q *request) bool { return q.gate == 0 }, &fault{reply: drip}))
	w.d.do("get", fields{"cell": "c", "path": w.known()})
	w.open(10 * time.Second)
	w.lock(w.prefix)
	w.awaitRenewals(1, nil)
	asked := w.gates.find(isKeepalive)
	last := asked[len(asked)-1].gate
	w.gates.on(always(func(q *request) bool { return q.gate == last && isKeepalive(q) }, &fault{reply: drip}))
	w.awaitRenewals(w.renewals()+2, nil)
	w.wantHeld("h")
	if lost := w.d.find("lost", "h"); len(lost) > 0 {
		w.Errorf("the hold was lost: %v", lost)
	}
}

// drip sends an answer byte by byte until the client has left.
func drip(w http.ResponseWriter) {
	const size = 1 << 20
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(size))
	for range size {
		if _, err := io.WriteString(w, " "); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// known writes the scenario's file, with its path as the content, and returns
// the path.
func (w *world) known() string {
	w.Helper()
	path := w.prefix + "/known"
	call[map[string]any](w, http.MethodPost, lockapi.RouteTransactions, map[string]any{"then": []any{
		map[string]any{"put": map[string]any{"path": path, "content": path}},
	}})
	return path
}

// membersFound: the client is given one replica, finds the others, and works
// when the first is gone.
func membersFound(w *world) {
	w.start(w.shared())
	w.d.do("connect", fields{"as": "c", "urls": w.gates.urls()[:1]})
	w.open(10 * time.Second)
	w.lock(w.prefix)
	w.eventually("the client asks for the members", func() error {
		for _, q := range w.gates.find(is(http.MethodGet, lockapi.RouteURLs)) {
			if q.status == http.StatusOK {
				return nil
			}
		}
		return fmt.Errorf("it has not asked")
	})
	w.gates.list[0].mute()
	w.d.do("get", fields{"cell": "c", "path": w.known()})
	w.awaitRenewals(w.renewals()+2, nil)
	w.wantHeld("h")
}

// membersChange: all replicas move to other URLs, and the client follows.
func membersChange(w *world) {
	w.beginAt(cell.New(w, cell.Options{Args: calm}))
	w.open(5 * time.Second)
	w.lock(w.prefix)
	w.awaitRenewals(1, nil)
	moved := newGates(w, w.cell)
	for i, url := range moved.urls() {
		id := fmt.Sprintf("r%d", i+1)
		call[map[string]any](w, http.MethodPatch, lockapi.RouteMembers+"/"+id, map[string]any{"url": url})
	}
	changes := time.Now()
	find := func(matches func(*request) bool) (out []request) {
		for _, q := range append(w.gates.find(matches), moved.find(matches)...) {
			if q.arrived.After(changes) && q.status == http.StatusOK {
				out = append(out, q)
			}
		}
		return out
	}
	w.eventually("the client asks for the members", func() error {
		if len(find(is(http.MethodGet, lockapi.RouteURLs))) > 0 {
			return nil
		}
		if n := len(find(isKeepalive)); n > 7 {
			w.Fatalf("the client has not asked, and had %d keepalives", n)
		}
		return fmt.Errorf("it has not asked")
	})
	w.gates.cut()
	w.d.do("get", fields{"cell": "c", "path": w.known()})
	w.gates = moved
	w.awaitRenewals(2, nil)
	w.lockAs("h2", w.prefix+"/2")
}
