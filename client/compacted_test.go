package client

import (
	"io"
	"testing"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

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
	all := c.calls.AllKnown()
	for _, ask := range []struct {
		of  *call.Endpoint
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
