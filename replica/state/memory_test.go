package state

import (
	"bytes"
	"testing"
	"unsafe"
)

// TestOneStringForAPath: a lock, its holders and its queue share the string of their
// path, also after a restore. A long path is most of the memory of a hold.
func TestOneStringForAPath(t *testing.T) {
	path := func() string { return string([]byte("/a/path")) }
	s := New()
	apply := func(cmds ...Command) {
		next, out := s.Apply(s.Index+1, 1, Batch{Epoch: s.Epoch, LeaseMS: 750, Commands: cmds})
		if !out.Accepted {
			t.Fatalf("%v was not accepted", cmds)
		}
		s = next
	}
	apply(Command{Operation: &OpenOffice{Master: "r1", Term: 1}})
	apply(Command{Operation: &OpenSession{Session: "s", TTLMS: 12_000}}, Command{Operation: &OpenSession{Session: "t", TTLMS: 12_000}})
	apply(Command{Operation: &Acquire{Session: "s", Path: path(), Mode: Exclusive}})
	apply(Command{Operation: &Acquire{Session: "t", Path: path(), Mode: Exclusive, Wait: Persistent}})
	var b bytes.Buffer
	if err := s.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(&b)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*State{"applied": s, "restored": restored} {
		l, ok := s.Lock("/a/path")
		if !ok {
			t.Fatalf("%s: the lock does not exist", name)
		}
		handles := 0
		for h := range s.Holders(l.Path) {
			handles++
			if unsafe.StringData(h.Path) != unsafe.StringData(l.Path) {
				t.Errorf("%s: a holder has a string of its own", name)
			}
		}
		for w := range s.Queue(l.Path) {
			handles++
			if unsafe.StringData(w.Path) != unsafe.StringData(l.Path) {
				t.Errorf("%s: a place in the queue has a string of its own", name)
			}
		}
		if handles != 2 {
			t.Errorf("%s: %d handles", name, handles)
		}
	}
}

// TestSmallContentsLetTheirEntryGo: a stored content keeps at most a few times its own
// size of its log entry in memory.
func TestSmallContentsLetTheirEntryGo(t *testing.T) {
	for _, size := range []int{1, 16 << 10, 100 << 10, MaxContent} {
		content := bytes.Repeat([]byte("x"), size)
		b := Batch{Epoch: 1, LeaseMS: 1000, Commands: []Command{{Operation: &Transaction{Then: []Step{
			&Write{Path: "/a", Content: content, Sum: make([]byte, 32)}, &Write{Path: "/b", Content: make([]byte, 200<<10), Sum: make([]byte, 32)}}}}}}
		entry, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeBatch(entry)
		if err != nil {
			t.Fatal(err)
		}
		clear(entry)
		kept := got.Commands[0].Operation.(*Transaction).Then[0].(*Write).Content
		if aliased := kept[0] == 0; aliased && len(entry) > 5*size {
			t.Errorf("a content of %d bytes keeps an entry of %d", size, len(entry))
		}
	}
}
