package wal

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestGoldenFrame: the file is part of a data directory's format. A change of
// it must not go unnoticed.
func TestGoldenFrame(t *testing.T) {
	got := frame(Mark{Generation: 5, Frame: 9}, true, 3, []*raft.Log{
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
