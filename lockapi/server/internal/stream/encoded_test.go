package stream

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestEncodedEvents: the cached text of an event equals the encoding, in any order
// of events, and callers that did not request content get none.
func TestEncodedEvents(t *testing.T) {
	var events encodedEvents
	secret := "secret"
	var all []lockapi.CellEvent
	for r := range uint64(3 * len(events)) {
		all = append(all, lockapi.CellEvent{Revision: r, Type: lockapi.EventFileChanged, Path: "/f",
			File: &lockapi.File{FileStat: lockapi.FileStat{Path: "/f", Revision: r}}})
	}
	all[7].Path = "/" + strings.Repeat("x", keptEncodedBytes)
	for _, i := range []int{0, 1, 2, len(events), 1, len(events) + 1, 1, 2 * len(events), 0, 7, 7} {
		for _, content := range []*string{&secret, nil} {
			e := all[i]
			f := *e.File
			f.Content = content
			e.File = &f
			var got, want bytes.Buffer
			if err := events.write(&got, &e); err != nil {
				t.Fatal(err)
			}
			if err := WriteEvent(&want, e.Revision, string(e.Type), &e); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() {
				t.Errorf("event %d: %.300q instead of %.300q", i, got.String(), want.String())
			}
		}
	}
	for i := range events {
		if k := events[i].Load(); k != nil && (len(k.text) > keptEncodedBytes || bytes.Contains(k.text, []byte(secret))) {
			t.Errorf("kept is %.300q", k.text)
		}
	}
}

// TestEventIsEncodedOnce: all but the first receiver cost no allocation.
func TestEventIsEncodedOnce(t *testing.T) {
	var events encodedEvents
	e := lockapi.CellEvent{Revision: 9, Type: lockapi.EventFileChanged, Path: "/f", File: &lockapi.File{FileStat: lockapi.FileStat{Path: "/f", Revision: 9}}}
	out := bytes.NewBuffer(make([]byte, 0, 4096))
	if n := testing.AllocsPerRun(100, func() {
		out.Reset()
		if err := events.write(out, &e); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for each further receiver", n)
	}
}
