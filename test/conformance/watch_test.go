package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// write writes a file by a plain call.
func (w *world) write(path string) {
	w.Helper()
	call[lockapi.FileStat](w, http.MethodPut, fileRoute(path), nil)
}

// revision returns the cell's revision.
func (w *world) revision() uint64 {
	w.Helper()
	return call[lockapi.EventList](w, http.MethodGet, lockapi.RouteEvents, nil).Revision
}

// watchFrom makes the driver watch the scenario's files as "w".
func (w *world) watchFrom(after uint64) {
	w.Helper()
	w.d.do("watch", fields{"cell": "c", "as": "w", "prefix": w.prefix + "/", "after": after})
}

// events returns the events of the scenario's files after a revision, up to the
// present one, which the answering replica may not have applied yet.
func (w *world) events(after uint64) (out []lockapi.CellEvent) {
	w.Helper()
	q := url.Values{"after": {decimal(after)}, "prefix": {w.prefix + "/"}, "limit": {"1000"}}
	now := w.revision()
	var list lockapi.EventList
	w.eventually("a replica has applied all events", func() error {
		if list = call[lockapi.EventList](w, http.MethodGet, lockapi.RouteEvents+"?"+q.Encode(), nil); list.Revision < now {
			return fmt.Errorf("it has those up to %d of %d", list.Revision, now)
		}
		return nil
	})
	for _, e := range list.Events {
		if e.Type != lockapi.EventMasterChanged {
			out = append(out, e)
		}
	}
	return out
}

// wantEvents waits until the driver has reported as many events as there are,
// and requires the same in the same order.
func (w *world) wantEvents(after uint64) {
	w.Helper()
	want := w.events(after)
	var got []fields
	w.eventually("all events are reported", func() error {
		got = nil
		for _, e := range w.d.find("event", "w") {
			if e.text("type") != string(lockapi.EventMasterChanged) {
				got = append(got, e)
			}
		}
		if len(got) < len(want) {
			return fmt.Errorf("%d of %d are", len(got), len(want))
		}
		return nil
	})
	for i, e := range got {
		if i >= len(want) {
			w.Errorf("an event that did not happen was reported: %v", e)
		} else if e.number("revision") != float64(want[i].Revision) || e.text("type") != string(want[i].Type) || e.text("path") != want[i].Path {
			w.Fatalf("event %d was reported as %v; it is %s of %s at revision %d", i, e, want[i].Type, want[i].Path, want[i].Revision)
		}
	}
}

// watch: events arrive in order, the requested ones only, until the end.
func watch(w *world) {
	w.begin()
	after := w.revision()
	w.watchFrom(after)
	for i := range 5 {
		w.write(fmt.Sprintf("%s/%d", w.prefix, i%3))
		w.write(w.prefix + "-elsewhere")
	}
	w.wantEvents(after)
	w.d.do("unwatch", fields{"watch": "w"})
	w.write(w.prefix + "/4")
	w.d.do("watch", fields{"cell": "c", "as": "w2", "prefix": w.prefix + "/", "after": after})
	w.d.awaitMany("event", "w2", 6)
	if n := len(w.d.find("event", "w")); n != 5 {
		w.Errorf("%d events were reported; the watch had ended after 5", n)
	}
}

// watchResumes: connections break, replicas refuse to answer, and the master is
// killed. No event is lost or repeated.
func watchResumes(w *world) {
	w.beginAt(cell.New(w, cell.Options{}))
	after := w.revision()
	w.watchFrom(after)
	for i := range 40 {
		w.write(fmt.Sprintf("%s/%d", w.prefix, i))
		switch i {
		case 5:
			w.d.await("event", "w")
			w.gates.breakConnections()
		case 15:
			at := w.watchedAt()
			w.gates.on(always(func(q *request) bool { return q.gate == at }, &fault{refuse: true}))
			w.gates.list[at].server.CloseClientConnections()
		case 25:
			master, err := w.cell.WaitMaster(w.ctx())
			if err == nil {
				err = master.Kill()
			}
			if err != nil {
				w.Fatal(err)
			}
		}
	}
	w.wantEvents(after)
}

// watchedAt returns the gate that the watch was begun at last.
func (w *world) watchedAt() int {
	all := w.gates.find(is(http.MethodGet, lockapi.RouteEvents))
	return all[len(all)-1].gate
}

// watchHangs: the replica that a watch reads from is silent, with its connection
// open. The watch continues at another one.
func watchHangs(w *world) {
	w.begin()
	after := w.revision()
	w.watchFrom(after)
	w.write(w.prefix + "/1")
	w.d.await("event", "w")
	w.gates.list[w.watchedAt()].mute()
	w.write(w.prefix + "/2")
	w.wantEvents(after)
}

// watchCompacted: events that are no longer kept are reported as missing, and
// the later ones follow.
func watchCompacted(w *world) {
	w.beginAt(w.other())
	after := w.revision()
	for i := range 3 * history {
		w.write(fmt.Sprintf("%s/%d", w.prefix, i))
	}
	w.watchFrom(after)
	gap := uint64(w.d.await("compacted", "w").number("revision"))
	if gap <= after {
		w.Errorf("the gap ends at revision %d; it begins after %d", gap, after)
	}
	w.write(w.prefix + "/later")
	w.wantEvents(gap)
}

// wrongEvents: replicas send each event twice. The client reports it once.
func wrongEvents(w *world) {
	w.begin()
	after := w.revision()
	streams := func(q *request) *fault {
		if q.path != lockapi.RouteEvents {
			return nil
		}
		var message []string
		return &fault{
			lines: func(line string) []string {
				message = append(message, line)
				if line != "" {
					return nil
				}
				twice := append(message[:len(message):len(message)], message...)
				message = nil
				return twice
			},
			modify: func(_ *http.Response, answer []byte) []byte {
				events, _ := field(answer, "events").([]any)
				return changed(answer, map[string]any{"events": append(events, events...)})
			},
		}
	}
	heal := w.gates.on(streams)
	w.watchFrom(after)
	for i := range 3 {
		w.write(fmt.Sprintf("%s/%d", w.prefix, i))
		w.d.awaitMany("event", "w", i+1)
	}
	heal()
	w.write(w.prefix + "/last")
	w.wantEvents(after)
}

// history is how many events the other cell keeps.
const history = 16

func decimal(n uint64) string { return fmt.Sprint(n) }

// wantWaiters waits until a lock has n waiters.
func (w *world) wantWaiters(path string, n int) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s has %d waiters", path, n), func() error {
		if l := w.read(path); l.Waiters != n {
			return fmt.Errorf("there are %d", l.Waiters)
		}
		return nil
	})
}

// wantGranted waits for a rival's grant and returns the moment before which it
// was.
func (w *world) wantGranted(granted <-chan time.Time) time.Time {
	w.Helper()
	at, ok := <-granted
	if !ok {
		w.Fatal("the rival was not granted the lock")
	}
	return at
}
