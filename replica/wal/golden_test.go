package wal

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestGoldenFrame: the file is part of a data directory's format. A change of
// it must not go unnoticed.
func TestGoldenFrame(t *testing.T) {
	got := frame(nil, Mark{Generation: 5, Frame: 9}, true, 3, []*raft.Log{
		{Index: 7, Term: 2, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte("more"), AppendedAt: time.Unix(1_700_000_000, 8)},
		{Index: 8, Term: 2, Type: raft.LogCommand, Data: []byte{0, 0xff}, AppendedAt: time.Unix(1_700_000_001, 0)},
	})
	const want = "" +
		"bd8be5a200000003000000000000000500000000000000090054010100000000000000000000000700000000000000020000" +
		"00006553f10000000008050000000400000004646174616d6f726500000000000000080000000000000002000000006553f1" +
		"010000000000000000020000000000ff"
	if len(got) != BlockSize || hex.EncodeToString(bytes.TrimRight(got, "\x00")) != want {
		t.Errorf("%d bytes:\n%x, and were\n%s", len(got), bytes.TrimRight(got, "\x00"), want)
	}
}

// TestFramesReuseRoom: a frame does not depend on what its room held before, and
// needs no other memory. Its entries are read as they were.
func TestFramesReuseRoom(t *testing.T) {
	mark := Mark{Generation: 2, Frame: 1}
	for _, size := range []int{1, roomSize - entryHead - 1, roomSize - entryHead, roomSize - entryHead + 1, 10_000, 140_000} {
		logs := []*raft.Log{
			{Index: 1, Term: 1, Data: bytes.Repeat([]byte("x"), size), Extensions: []byte("more"), AppendedAt: time.Unix(1, 2).UTC()},
			{Index: 2, Term: 1, Data: []byte("last"), AppendedAt: time.Unix(3, 4).UTC()},
		}
		fresh := frame(nil, mark, false, 0, logs)
		room := bytes.Repeat([]byte{0xff}, len(fresh)+BlockSize)
		if n := testing.AllocsPerRun(10, func() { frame(room, mark, false, 0, logs) }); n > 0 {
			t.Errorf("%d bytes: %v allocations", size, n)
		}
		if again := frame(bytes.Repeat([]byte{0xff}, len(fresh)), mark, false, 0, logs); !bytes.Equal(again, fresh) {
			t.Errorf("%d bytes: the frame differs in used room", size)
		}
		file := make([]byte, 2*AreaBlocks*BlockSize)
		copy(file, fresh)
		got, next, err := Parse(bytes.NewReader(file), mark)
		if err != nil || next != 2 || !reflect.DeepEqual(got, logs) {
			t.Errorf("%d bytes: %d entries are read, then frame %d, %v", size, len(got), next, err)
		}
	}
}

// BenchmarkFrame encodes an entry of 64 writes of 1 KiB.
func BenchmarkFrame(b *testing.B) {
	logs := []*raft.Log{{Index: 1, Term: 1, Data: make([]byte, 75_000)}}
	var raw []byte
	b.ReportAllocs()
	for b.Loop() {
		raw = frame(raw, Mark{Generation: 2, Frame: 1}, true, 0, logs)
	}
}
