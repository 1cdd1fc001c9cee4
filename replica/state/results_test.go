package state_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/state"
)

// cellOf returns the state of a cell with a level, one session and files.
func cellOf(t *testing.T, level uint64, files map[string]string) *state.State {
	t.Helper()
	s, _ := state.New().Apply(1, 1, state.Batch{LeaseMS: 2000, Commands: commands(&state.OpenOffice{Master: "r1", Term: 1})})
	s = applied(t, s, commands(&state.OpenSession{Session: "s", TTLMS: 1000}, &state.RaiseLevel{Level: level})...)
	for path, content := range files {
		s = applied(t, s, commands(&state.Transaction{Then: []state.Step{write(path, content, state.Write{})}})...)
	}
	return s
}

// gets returns n reads of a file.
func gets(path string, n int) []state.Step {
	return slices.Repeat([]state.Step{&state.Get{Path: path}}, n)
}

// TestResultsAreBounded: the size of the contents in a result, in JSON, is bounded to the
// byte. A transaction that exceeds the bound changes nothing on any replica.
func TestResultsAreBounded(t *testing.T) {
	const most = state.MaxContent
	s := cellOf(t, state.Level, map[string]string{
		"/text": strings.Repeat("x", most), "/quotes": strings.Repeat(`"`, most), "/controls": strings.Repeat("\x01", most),
		"/bytes": strings.Repeat("\xff", most/4*3), "/one": "x", "/none": ""})
	put := write("/new", "x", state.Write{})
	for _, c := range []struct {
		name string
		then []state.Step
		step int // the step that exceeds the bound, or -1
	}{
		{"four texts are 1 MiB", gets("/text", 4), -1},
		{"and a byte", append(gets("/text", 4), &state.Get{Path: "/one"}), 4},
		{"and an empty file", append(gets("/text", 4), &state.Get{Path: "/none"}, &state.Get{Path: "/missing"}), -1},
		{"a quote takes two", gets("/quotes", 3), 2},
		{"a control character takes six", gets("/controls", 1), 0},
		{"three bytes take four in base64", gets("/bytes", 5), 4},
		{"very many", gets("/text", 128), 4},
		{"a write before", append([]state.Step{put}, gets("/text", 5)...), 5},
		{"a write behind", append(gets("/text", 5), put), 4},
		{"what was written counts", append([]state.Step{write("/text", strings.Repeat(`"`, most), state.Write{})}, gets("/text", 3)...), 3},
	} {
		op := &state.Transaction{Then: c.then}
		found, _ := s.Would(op)
		next, out := s.Apply(s.Index+1, 1, state.Batch{Epoch: s.Epoch, LeaseMS: 2000, Commands: commands(op)})
		r := out.Results[0].(state.TransactionResult)
		if err := next.Check(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.step < 0 {
			if r.Verdict != state.Done || len(r.Steps) != len(c.then) {
				t.Errorf("%s: %s", c.name, resultText(r))
			}
			continue
		}
		want := &state.Failure{Step: c.step, Why: state.TooLong}
		if r.Verdict != state.Failed || !reflect.DeepEqual(r.Failure, want) || r.Steps != nil || len(out.Changes) > 0 || !reflect.DeepEqual(found, out.Results[0]) {
			t.Errorf("%s: %+v, %v; foreseen %+v", c.name, r.Failure, out.Changes, found)
		}
		if _, there := next.File("/new"); there || !bytes.Equal(contentOf(next, "/text"), contentOf(s, "/text")) {
			t.Errorf("%s: the refused transaction changed a file", c.name)
		}
	}
}

func contentOf(s *state.State, path string) []byte {
	f, _ := s.File(path)
	return f.Content
}

// TestTooLargeResultsAreRemembered: a repeated call gets the same refusal, even if the
// files are short by then.
func TestTooLargeResultsAreRemembered(t *testing.T) {
	s := cellOf(t, state.Level, map[string]string{"/a": strings.Repeat("x", state.MaxContent)})
	op := &state.Transaction{Session: "s", Key: "k", Digest: []byte{1}, Then: gets("/a", 5)}
	s = applied(t, s, commands(op, &state.Transaction{Then: []state.Step{write("/a", "x", state.Write{})}})...)
	var b bytes.Buffer
	if err := s.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	restored, err := state.Restore(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*state.State{s, restored} {
		found, changes := s.Would(op)
		if r := found.(state.TransactionResult); changes || !r.Replayed || r.Verdict != state.Failed || r.Failure.Step != 4 || r.Failure.Why != state.TooLong {
			t.Errorf("%+v", found)
		}
	}
}

// TestResultsAreAsLongBefore: a log of an earlier level has the same results as then.
func TestResultsAreAsLongBefore(t *testing.T) {
	s := cellOf(t, 3, map[string]string{"/a": strings.Repeat("x", state.MaxContent)})
	found, _ := s.Would(&state.Transaction{Then: gets("/a", 128)})
	if r := found.(state.TransactionResult); r.Verdict != state.Done || len(r.Steps) != 128 {
		t.Errorf("%v, %d steps", r.Verdict, len(r.Steps))
	}
}
