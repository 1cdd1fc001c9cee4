package client

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestFoundingIsNoCell: an interrupted founding starts again with another id. A
// client that called before continues with the resulting cell.
func TestFoundingIsNoCell(t *testing.T) {
	s := sameCell{now: func() time.Duration { return 0 }}
	q := &call{path: lockapi.RouteLocks + "/l"}
	answer := func(id, epoch string) http.Header {
		h := http.Header{}
		h.Set(lockapi.HeaderCell, id)
		h.Set(lockapi.HeaderEpoch, epoch)
		return h
	}
	for _, step := range []struct {
		id, epoch string
		status    int
		other     bool
	}{{"a", "0", 503, false}, {"b", "1", 200, false}, {"a", "0", 503, false}, {"b", "2", 503, false}, {"a", "0", 200, true}, {"c", "1", 503, true}} {
		if err := s.check("http://r1", q, step.status, answer(step.id, step.epoch)); errors.Is(err, ErrOtherCell) != step.other {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

// TestCompactedIsKept: an answer compacted still counts if that replica does
// not answer again. Otherwise the watch would go back to revision 0.
func TestCompactedIsKept(t *testing.T) {
	c, err := New("http://r1", "http://r2", "http://r3")
	if err != nil {
		t.Fatal(err)
	}
	var got []lockapi.Compacted
	m := &watcher{c: c, yield: func(e Event, _ error) bool {
		got = append(got, *e.Compacted)
		return true
	}}
	w := &watch{c: c, after: 4, to: &lone{m: m}}
	refused := &lockapi.Error{Code: lockapi.CodeCompacted, Compacted: lockapi.Compacted{Oldest: 5, Revision: 7}}
	all := c.calls.router.known.Load().all
	for _, ask := range []struct {
		of  *endpoint
		err error
	}{{all[0], refused}, {all[0], io.EOF}, {all[1], io.EOF}, {all[2], io.EOF}} {
		w.at = ask.of
		if err := w.classify(t.Context(), ask.err); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 1 || got[0].Revision != 7 || w.after != 7 {
		t.Errorf("yielded %+v, and continues after %d", got, w.after)
	}
}
