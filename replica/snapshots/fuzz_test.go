package snapshots

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// FuzzSnapshotMeta: for any meta.json, the snapshot beside it is refused, or
// opened as it was written.
func FuzzSnapshotMeta(f *testing.F) {
	store, want, name := aSnapshot(f)
	written, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(written)
	for old, other := range map[string]string{
		`"Index":42`: `"Index":43`, `"Version":1`: `"Version":0`, `"Term":7`: `"Term":8`, `"Suffrage":1`: `"Suffrage":0`,
		"r1": "r3", `{`: `{"Index":43,`, `}`: ``, `"Size":`: `"Size":-`, `"Peers":`: `"peers":`,
	} {
		f.Add([]byte(strings.Replace(string(written), old, other, 1)))
	}
	was, err := json.Marshal(meaning(want))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, meta []byte) {
		if err := os.WriteFile(name, meta, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.List(); err != nil {
			t.Fatal(err)
		}
		got, r, err := store.Open(want.ID)
		if err != nil {
			return
		}
		state, err := io.ReadAll(r)
		if err != nil || r.Close() != nil || string(state) != "the state" {
			t.Fatalf("the state reads %q, %v", state, err)
		}
		is, err := json.Marshal(meaning(got))
		if err != nil || !bytes.Equal(is, was) {
			t.Fatalf("%s is opened as\n%s, %v, and was written as\n%s", meta, is, err, was)
		}
	})
}

// aSnapshot returns a store with one snapshot, and the name of its meta.json.
func aSnapshot(f *testing.F) (store *Store, meta *raft.SnapshotMeta, name string) {
	f.Helper()
	dir := f.TempDir()
	files, err := raft.NewFileSnapshotStore(dir, kept, io.Discard)
	if err != nil {
		f.Fatal(err)
	}
	store = &Store{SnapshotStore: files, dir: filepath.Join(dir, "snapshots"), done: func(uint64) error { return nil }}
	_, trans := raft.NewInmemTransport("")
	conf := raft.Configuration{Servers: []raft.Server{{ID: "r1", Address: "127.0.0.1:7201"}, {ID: "r2", Address: "127.0.0.1:7202", Suffrage: raft.Nonvoter}}}
	sink, err := store.Create(raft.SnapshotVersionMax, 42, 7, conf, 3, trans)
	if err == nil {
		_, err = sink.Write([]byte("the state"))
	}
	if err == nil {
		err = sink.Close()
	}
	if err != nil {
		f.Fatal(err)
	}
	meta, r, err := store.Open(sink.ID())
	if err != nil {
		f.Fatal(err)
	}
	if err := r.Close(); err != nil {
		f.Fatal(err)
	}
	return store, meta, filepath.Join(store.dir, sink.ID(), "meta.json")
}

// meaning returns the parts that Raft uses: the list of peers counts in version
// 0 only.
func meaning(m *raft.SnapshotMeta) raft.SnapshotMeta {
	out := *m
	out.Peers = nil
	return out
}
