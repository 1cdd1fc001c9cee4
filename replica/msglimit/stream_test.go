package msglimit

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// ends returns the positions at which messages end, including the snapshot
// behind a head.
func ends(b []byte, bounds Bounds, chunk int) (ends []int, s stream, err error) {
	s.bounds = bounds
	for i := 0; i < len(b); i += chunk {
		next := b[i:min(i+chunk, len(b))]
		was := s.begun
		if err := s.pass(next); err != nil {
			return ends, s, err
		}
		if chunk == 1 && was && !s.begun {
			ends = append(ends, i+1)
		}
	}
	return ends, s, nil
}

// decoded reads messages as the library does, until one is incomplete or cannot
// be decoded. It returns the end of each.
func decoded(b []byte) (ends []int) {
	in := bytes.NewReader(b)
	dec := codec.NewDecoder(in, &codec.MsgpackHandle{})
	for {
		kind, err := in.ReadByte()
		if err != nil {
			return ends
		}
		q := request(kind)
		if q == nil || dec.Decode(q) != nil {
			return ends
		}
		ends = append(ends, len(b)-in.Len())
		if head, ok := q.(*raft.InstallSnapshotRequest); ok {
			_, _ = io.Copy(io.Discard, io.LimitReader(in, head.Size))
		}
	}
}

func request(kind byte) any {
	switch kind {
	case appendEntries:
		return new(raft.AppendEntriesRequest)
	case 1:
		return new(raft.RequestVoteRequest)
	case installSnapshot:
		return new(raft.InstallSnapshotRequest)
	case 3:
		return new(raft.TimeoutNowRequest)
	case 4:
		return new(raft.RequestPreVoteRequest)
	}
	return nil
}

// FuzzStream: the library decodes passed data as exactly the messages that were
// counted. The result does not depend on how the data is split.
func FuzzStream(f *testing.F) {
	for _, q := range []struct {
		kind byte
		q    any
		more string
	}{
		{appendEntries, entries(0, 0), ""},
		{appendEntries, entries(2, 3), "\x01\x80"},
		{appendEntries, entries(1, 300), ""},
		{1, &raft.RequestVoteRequest{RPCHeader: header, LeadershipTransfer: true}, "\x04\x80\x03\x80"},
		{installSnapshot, head(3, 5), "12345"},
		{3, &raft.TimeoutNowRequest{RPCHeader: header}, "\x00\x90\x00\xc0"},
		{4, &raft.RequestPreVoteRequest{RPCHeader: header, Term: 1 << 40}, ""},
	} {
		f.Add(append(encoded(f, q.kind, q.q), q.more...), uint8(7))
	}
	f.Fuzz(agree)
}

// agree fails if the stream's messages end at other bytes than the library's,
// or if the stream's result depends on how the data is split.
func agree(t *testing.T, b []byte, chunk uint8) {
	small := Bounds{Entries: 2000, Other: 1500, Values: 100}
	at, one, err := ends(b, small, 1)
	_, other, err2 := ends(b, small, int(chunk)+1)
	if (err == nil) != (err2 == nil) {
		t.Fatalf("%q byte by byte: %v; by %d: %v", b, err, int(chunk)+1, err2)
	}
	if err == nil && (one.begun != other.begun || one.over != other.over || one.left != other.left || one.bytes != other.bytes || one.values != other.values) {
		t.Fatalf("%q byte by byte: %+v; by %d: %+v", b, one, int(chunk)+1, other)
	}
	for i, end := range decoded(b) {
		switch {
		case i < len(at) && at[i] != end:
			t.Fatalf("%q: message %d ends at %d to the library, at %d to the guard", b, i, end, at[i])
		case i >= len(at) && err == nil:
			t.Fatalf("%q: message %d ends at %d to the library, and not to the guard", b, i, end)
		case i >= len(at):
			return // refused
		}
	}
}

// TestNoByteDividesThem: with any one byte of a message replaced, the library
// and the stream agree on its end.
func TestNoByteDividesThem(t *testing.T) {
	for kind, q := range map[byte]any{
		appendEntries: &raft.AppendEntriesRequest{Entries: []*raft.Log{{Index: 300, Data: []byte("abc")}}},
		1:             &raft.RequestVoteRequest{RPCHeader: header, Term: 1 << 40},
	} {
		b := append(encoded(t, kind, q), "\x03\x80\x03\x80\x03\x80"...)
		for i, was := range b {
			for v := range 256 {
				b[i] = byte(v)
				agree(t, b, uint8(i))
			}
			b[i] = was
		}
	}
}

// TestBoundsAreExact: the last allowed byte and the last allowed value pass.
func TestBoundsAreExact(t *testing.T) {
	q := encoded(t, appendEntries, entries(16, 100))
	const values = 1 + 18 + 16 + 16*12
	exact := Bounds{Entries: int64(len(q) - 1), Values: values}
	if at, _, err := ends(q, exact, 1); err != nil || len(at) != 1 || at[0] != len(q) {
		t.Error(at, err)
	}
	for _, less := range []Bounds{{Entries: exact.Entries - 1, Values: values}, {Entries: exact.Entries, Values: values - 1}} {
		if _, _, err := ends(q, less, 1); err == nil {
			t.Errorf("%+v let it through", less)
		}
	}
}
