package datadir

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
)

var rewrite = flag.Bool("rewrite", false, "record a data directory as this release writes it")

// A data directory outlives the release that wrote it. These tests pin its
// contents: a difference is a mistake, or needs another dataFormat.

// TestGoldenIdentity: each field keeps its name, and the checksum covers the
// same.
func TestGoldenIdentity(t *testing.T) {
	dir := t.TempDir()
	who := admission.Identity{
		Format: dataFormat, Cell: "prod", ID: "r1", Directory: "0123456789abcdef",
		Founding: admission.Founding{{ID: "r1", Directory: "0123456789abcdef", RaftAddr: "10.0.0.1:7201"}},
		Access:   "digest", CellID: "5cfd2797946bf3c3", Founded: true, Admitted: 7, Replaced: 8,
		Known: admission.Roster{Index: 9, Members: []string{"r1/0123456789abcdef"}, Removed: []string{"r2/fedcba9876543210", "r2"}},
	}
	must(t, writeIdentity(dir, who))
	raw, err := os.ReadFile(filepath.Join(dir, identityFile))
	must(t, err)
	const want = `{
  "format": 4,
  "cell": "prod",
  "id": "r1",
  "directory": "0123456789abcdef",
  "founding": [
    {
      "id": "r1",
      "directory": "0123456789abcdef",
      "raft_addr": "10.0.0.1:7201"
    }
  ],
  "access": "digest",
  "cell_id": "5cfd2797946bf3c3",
  "founded": true,
  "admitted": 7,
  "replaced": 8,
  "known": {
    "index": 9,
    "members": [
      "r1/0123456789abcdef"
    ],
    "removed": [
      "r2/fedcba9876543210",
      "r2"
    ]
  },
  "checksum": "3fe84f85"
}
`
	if string(raw) != want {
		t.Errorf("it is\n%s and was\n%s", raw, want)
	}
}

// goldenDirectory is a whole directory from the release that first wrote this
// format: a snapshot, and behind it entries in raft.db and in raft.wal.
const goldenDirectory = "testdata/format-4.tar.gz"

// goldenEntries is the number of log entries; the snapshot has the first
// goldenSnapshot of them.
const goldenEntries, goldenSnapshot = 7, 3

func goldenEntry(index uint64) raft.Log {
	return raft.Log{
		Index: index, Term: 2, Type: raft.LogCommand, Data: fmt.Appendf(nil, "entry %d", index),
		Extensions: []byte{byte(index)}, AppendedAt: time.Unix(1_700_000_000, int64(index)).UTC(),
	}
}

// record writes the directory.
func record(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r1")
	d, err := Open(dir, "prod", "r1")
	must(t, err)
	who := d.Identity()
	who.Directory, who.CellID, who.Founded = "0123456789abcdef", "5cfd2797946bf3c3", true
	s, err := d.Open(true, zerolog.Nop())
	must(t, err)
	must(t, d.Save(who))
	must(t, s.Votes.SetUint64([]byte("CurrentTerm"), 2))
	must(t, s.Votes.Set([]byte("LastVoteCand"), []byte("r1/0123456789abcdef")))
	_, wire := raft.NewInmemTransport("r1")
	conf := raft.Configuration{Servers: []raft.Server{{ID: "r1/0123456789abcdef", Address: "r1/0123456789abcdef@10.0.0.1:7201"}}}
	for index := uint64(1); index <= goldenEntries; index++ {
		l := goldenEntry(index)
		must(t, s.Logs.StoreLog(&l))
		if index == goldenSnapshot { // after it the log continues in raft.wal
			sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, index, 2, conf, 1, wire)
			must(t, err)
			_, err = sink.Write([]byte("a state"))
			must(t, err)
			must(t, sink.Close())
			must(t, s.Logs.DeleteRange(1, index-1))
		}
	}
	must(t, s.Close())
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	must(t, w.AddFS(os.DirFS(dir)))
	must(t, w.Close())
	must(t, z.Close())
	must(t, os.WriteFile(goldenDirectory, out.Bytes(), 0o644))
}

// unpack extracts a directory from an archive.
func unpack(t *testing.T, archive string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		must(t, err)
		at := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			must(t, os.MkdirAll(at, 0o700))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(at), 0o700))
		raw, err := io.ReadAll(r)
		must(t, err)
		must(t, os.WriteFile(at, raw, 0o600))
	}
}

// TestGoldenDirectory: everything that an earlier build wrote in this format is
// read.
func TestGoldenDirectory(t *testing.T) {
	if *rewrite {
		record(t)
	}
	for _, wal := range []bool{true, false} {
		d, err := Open(unpack(t, goldenDirectory), "prod", "r1")
		must(t, err)
		if who := d.Identity(); who.CellID != "5cfd2797946bf3c3" || !who.Founded || who.ServerID() != "r1/0123456789abcdef" {
			t.Errorf("%+v", who)
		}
		s, err := d.Open(wal, zerolog.Nop())
		must(t, err)
		term, err := s.Votes.GetUint64([]byte("CurrentTerm"))
		must(t, err)
		vote, err := s.Votes.Get([]byte("LastVoteCand"))
		must(t, err)
		if term != 2 || string(vote) != "r1/0123456789abcdef" {
			t.Errorf("term %d, vote %q", term, vote)
		}
		last, err := s.Logs.LastIndex()
		must(t, err)
		if last != goldenEntries {
			t.Errorf("the last entry is %d", last)
		}
		for index := uint64(goldenSnapshot); index <= goldenEntries; index++ {
			var got raft.Log
			must(t, s.Logs.GetLog(index, &got))
			if want := goldenEntry(index); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		metas, err := s.Snapshots.List()
		must(t, err)
		if len(metas) != 1 || metas[0].Index != goldenSnapshot || len(metas[0].Configuration.Servers) != 1 {
			t.Fatalf("%+v", metas)
		}
		_, body, err := s.Snapshots.Open(metas[0].ID)
		must(t, err)
		if state, err := io.ReadAll(body); err != nil || string(state) != "a state" {
			t.Errorf("%q, %v", state, err)
		}
		must(t, body.Close())
		must(t, s.Close())
	}
}
