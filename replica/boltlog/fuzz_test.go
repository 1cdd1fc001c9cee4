package boltlog

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// FuzzEntry: no entry makes unseal panic. An entry that matches its checksum
// gets the same one again, and only under its own index.
func FuzzEntry(f *testing.F) {
	f.Add(uint64(7), uint64(2), uint8(raft.LogCommand), int64(1_700_000_000), int64(1), []byte("data"), []byte{}, true)
	f.Add(uint64(7), uint64(2), uint8(raft.LogConfiguration), int64(-62135596800), int64(0), []byte{}, []byte("more"), true)
	f.Add(uint64(0), uint64(0), uint8(255), int64(1<<62), int64(-1), []byte{}, []byte{1, 2, 3}, false)
	f.Fuzz(func(t *testing.T, index, term uint64, kind uint8, sec, nsec int64, data, extensions []byte, seal bool) {
		l := &raft.Log{Index: index, Term: term, Type: raft.LogType(kind), Data: data, Extensions: extensions, AppendedAt: time.Unix(sec, nsec).UTC()}
		given := *l
		if seal {
			given = *sealed(l)
		}
		read := given
		if err := unseal(index, &read); err != nil {
			if seal {
				t.Fatalf("%+v is refused: %v", given, err)
			}
			return
		}
		if again := sealed(&read); !bytes.Equal(again.Extensions, given.Extensions) {
			t.Fatalf("extensions %x are read as %x and written as %x", given.Extensions, read.Extensions, again.Extensions)
		}
		for _, other := range []raft.Log{
			{Index: index, Term: term ^ 1, Type: l.Type, Data: data, AppendedAt: l.AppendedAt},
			{Index: index, Term: term, Type: l.Type ^ 1, Data: data, AppendedAt: l.AppendedAt},
			{Index: index, Term: term, Type: l.Type, Data: append([]byte{0}, data...), AppendedAt: l.AppendedAt},
			{Index: index, Term: term, Type: l.Type, Data: data, AppendedAt: time.Unix(sec, nsec+1)},
		} {
			other.Extensions = given.Extensions
			if unseal(index, &other) == nil {
				t.Fatalf("%+v has the checksum of %+v", other, given)
			}
		}
		if moved := given; unseal(index+1, &moved) == nil {
			t.Fatalf("%+v is read as entry %d", given, index+1)
		}
	})
}

// FuzzManifest: no bytes make reading a manifest panic. A manifest that was
// read is written so that it reads back the same.
func FuzzManifest(f *testing.F) {
	for _, r := range []manifest{
		{},
		{Transaction: 9, Entries: spans{{2, 5}, {9, 9}}, Deleted: spans{{1, 1}}, Snapshot: 4, Votes: map[string][]byte{"LastVoteCand": []byte("r2"), "LastVoteTerm": {0}}},
	} {
		entry, err := r.entry()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(entry.Data)
	}
	f.Add([]byte("null"))
	f.Add([]byte(`{"entries":[{"first":9,"last":1}],"votes":{"a":null}}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := reread(t, &raft.Log{Index: manifestIndex, Data: body})
		if r == nil {
			return
		}
		entry, err := r.entry()
		must(t, err)
		if again := reread(t, entry); !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v is written and read as %+v", r, again)
		}
	})
}

// reread returns the manifest in an entry, nil if it is refused.
func reread(t *testing.T, entry *raft.Log) *manifest {
	t.Helper()
	log := raft.NewInmemStore()
	must(t, log.StoreLog(sealed(entry)))
	r, err := readManifest(log)
	if err != nil {
		return nil
	}
	return r
}
