package msglimit

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// TestMessagesPass: everything that the library sends arrives as it would
// without the limits.
func TestMessagesPass(t *testing.T) {
	from, _, arrived, refused := transports(t, readAll)
	for i, want := range messages(t, from) {
		have := <-arrived
		if !reflect.DeepEqual(have.command, want.command) {
			t.Errorf("message %d: %+v, want %+v", i, have.command, want.command)
		}
		if !bytes.Equal(have.snapshot, want.snapshot) {
			t.Errorf("message %d: a snapshot of %d bytes, want %d", i, len(have.snapshot), len(want.snapshot))
		}
	}
	if len(refused) > 0 {
		t.Error(<-refused)
	}
}

// encoded returns a message in the library's encoding.
func encoded(t testing.TB, kind byte, q any) []byte {
	t.Helper()
	b := bytes.NewBuffer([]byte{kind})
	var h codec.MsgpackHandle
	h.TimeNotBuiltin = true
	if err := codec.NewEncoder(b, &h).Encode(q); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// list returns a message with a list of n values.
func list(n int, value byte) []byte {
	b := append([]byte{appendEntries, 0x81, 0xa7}, "Entries"...)
	return append(binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n)), bytes.Repeat([]byte{value}, n)...)
}

// TestBombsAreRefused: a message beyond the size of members' messages ends the
// connection, and is not decoded.
func TestBombsAreRefused(t *testing.T) {
	bomb := list(20<<20, 0x80)
	swallowed := bytes.Replace(list(20<<20, 0xc0), []byte("Entries"), []byte("entries"), 1)
	long := append([]byte{appendEntries, 0x81, 0xa4}, "Term\xdb\xff\xff\xff\xff"...)
	deep := append([]byte{appendEntries, 0x81, 0xa1, 'x'}, bytes.Repeat([]byte{0x91}, 20<<20)...)
	other := encoded(t, installSnapshot, head(99, int64(len(bomb))))
	for _, c := range []struct {
		name string
		sent []byte
		want string
	}{
		{"empty entries", bomb, "1024 values"},
		{"a list that nobody asked for", swallowed, "1024 values"},
		{"a map of 4 G pairs", []byte("\x00\xdf\xff\xff\xff\xff"), "1024 values"},
		{"a string of 4 GB", append(long, make([]byte, 8<<20)...), "bytes"},
		{"lists in lists", deep, "1024 values"},
		{"a long vote", encoded(t, 1, &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{Addr: make([]byte, 65<<10)}}), "65536 bytes"},
		{"a long head of a snapshot", encoded(t, installSnapshot, &raft.InstallSnapshotRequest{Peers: make([]byte, 65<<10)}), "65536 bytes"},
		{"a snapshot that would be taken for messages", append(other, bomb...), "version 99"},
		{"a snapshot of less than nothing", encoded(t, installSnapshot, head(3, -1)), "-1 bytes"},
		{"a head that is none", []byte{installSnapshot, 0xa1, 'x'}, "head of a snapshot"},
		{"more behind a snapshot", append(encoded(t, installSnapshot, head(3, 5)), "12345\x00"...), "follows a snapshot"},
		{"another kind", []byte{5, 0x80}, "5 is not a kind"},
		{"a value that the library does not write", []byte("\x00\x81\xa1x\xc7\x01\x01\x01"), "0xc7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, w, _, refused := transports(t, readAll)
			conn, err := w.Dial("", 0)
			if err != nil {
				t.Fatal(err)
			}
			w.sent.Reset()
			w.sent.Grow(len(c.sent))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, _ = conn.(*taped).Conn.Write(c.sent)
			if !isClosed(t, conn) {
				t.Error("the connection is open")
			}
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
				t.Errorf("it took %d MB", took>>20)
			}
			select {
			case err := <-refused:
				if !strings.Contains(err.Error(), c.want) || len(refused) > 0 {
					t.Errorf("%v (and %d more); want one with %q", err, len(refused), c.want)
				}
			default:
				t.Error("it was not refused")
			}
		})
	}
}

// TestNothingBehindAnAnsweredSnapshot: a snapshot is answered before all of it
// has been read. The rest is not read as messages.
func TestNothingBehindAnAnsweredSnapshot(t *testing.T) {
	_, w, arrived, _ := transports(t, func(rpc raft.RPC) got {
		rpc.Respond(answerTo(rpc.Command), nil)
		return got{command: rpc.Command}
	})
	conn, err := w.Dial("", 0)
	if err != nil {
		t.Fatal(err)
	}
	vote := encoded(t, 1, &raft.RequestVoteRequest{RPCHeader: header})
	go func() {
		_, _ = conn.Write(encoded(t, installSnapshot, head(3, 1<<20)))
		_, _ = conn.Write(bytes.Repeat(vote, 1000))
	}()
	if !isClosed(t, conn) {
		t.Error("the connection is open")
	}
	select {
	case <-arrived:
	case <-time.After(patience):
		t.Error("the snapshot did not arrive")
	}
	if n := len(arrived); n > 0 {
		t.Errorf("it was taken for %d messages", n)
	}
}
