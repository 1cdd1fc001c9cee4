package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/peerconn"
	"github.com/stoutlock/stout/replica/rafttransport"
	"github.com/stoutlock/stout/replica/state"
)

// stranger opens a connection as any caller that reaches the port can: it first
// requests the card, which has everything that the opening needs.
func stranger(t *testing.T, o Options, kind peerconn.Kind, from string) (net.Conn, error) {
	t.Helper()
	raw, err := new(peerconn.Caller).AskInfo(t.Context(), o.RaftListen, peerconn.Hello{Cell: o.Cell, From: from, To: o.ID})
	must(t, err)
	var card admission.Info
	must(t, cbor.Unmarshal(raw, &card))
	c, err := new(peerconn.Caller).Dial(t.Context(), o.RaftListen, peerconn.Hello{Kind: kind, Cell: o.Cell, CellID: card.CellID, From: from, To: card.ServerID()})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// isClosed reports whether the other end has closed a connection on which it
// sends nothing.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestBombBehindAnOpening: 20 MB of empty entries, which the library would
// expand to 2 GB, behind a correct opening. No other test runs beside it, since it
// counts what the process allocates.
func TestBombBehindAnOpening(t *testing.T) {
	o := options(t, 1)[0]
	log := &testrun.Log{}
	o.Logger = zerolog.New(log).Level(zerolog.WarnLevel)
	r := start(t, o)
	const n = 20 << 20
	bomb := binary.BigEndian.AppendUint32(append([]byte("\x00\x81\xa7Entries"), 0xdd), n)
	bomb = append(bomb, bytes.Repeat([]byte{0x80}, n)...)
	c, err := stranger(t, o, peerconn.Raft, string(r.self()))
	must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = c.Write(bomb) // it may be closed before the end
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	if _, err := io.Copy(io.Discard, c); isTimeout(err) {
		t.Error("the connection is open")
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took >= 500 {
		t.Errorf("%d MB in one message took %d MB", n>>20, took)
	}
	caller := c.LocalAddr().String() // others may call a port that was theirs
	count := func() int { return strings.Count(log.String(), caller) }
	until(t, "it is logged", func() bool { return count() > 0 })
	if n := count(); n != 1 {
		t.Errorf("%d lines have it:\n%s", n, log.String())
	}
}

func isTimeout(err error) bool {
	t, ok := err.(net.Error)
	return ok && t.Timeout()
}

// TestLargestEntriesArePassedOn: the largest entries that a leader may put into
// its log reach followers, also in full messages. Larger entries do not get
// into the log.
func TestLargestEntriesArePassedOn(t *testing.T) {
	t.Parallel()
	opts := options(t, 3)
	for i := range opts {
		opts[i].SnapshotThreshold, opts[i].TrailingLogs = 1<<20, 1<<20
	}
	all := startAll(t, opts...)
	leader, epoch := lead(t, all...)
	away := without(all, leader)[0]
	stop(t, away)
	large := func(i, size int) state.Batch {
		c := open(fmt.Sprintf("large%d", i))
		c.Operation.(*state.OpenSession).Meta = map[string]string{"k": strings.Repeat("x", size)}
		return state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{c}}
	}
	for i, lost := 0, 0; i < 2*rafttransport.MaxAppendEntries; i++ {
		_, err := leader.Submit(large(i, membership.MaxEntryBytes-1<<10))()
		if lost < 5 && err != nil { // a busy disk may cost a leader its lead
			t.Log(err)
			lost, i = lost+1, i-1
			leader, epoch = lead(t, without(all, away)...)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := leader.Submit(large(-1, membership.MaxEntryBytes))(); err == nil || !strings.Contains(err.Error(), "an entry may have at most") {
		t.Error(err)
	}
	same(t, leader, start(t, away.opts))
}

// TestStrangersKeepNoMemberOut: invented names get no connection to a replica
// that has a master, and few to one without. The members keep theirs; the
// others come back.
func TestStrangersKeepNoMemberOut(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 3)...)
	leader, _ := lead(t, all...)
	// A connection counts while it is open. On a slow machine the first are
	// closed, because they send nothing, before the last is dialled.
	places := func(r *Replica, kind peerconn.Kind, n int) (most int) {
		var open []net.Conn
		for i := range n {
			if c, err := stranger(t, r.opts, kind, fmt.Sprintf("x%d/y", i)); err == nil {
				open = append(open, c)
			}
			open = slices.DeleteFunc(open, isClosed)
			most = max(most, len(open))
		}
		return most
	}
	others := without(all, leader)
	for _, r := range others {
		if ids := r.memberIDs(); len(ids) < 3 || !slices.Contains(ids, string(leader.self())) {
			t.Fatalf("%s knows %v", r.ID(), ids)
		}
		for _, kind := range []peerconn.Kind{peerconn.Raft, peerconn.Call} {
			if n := places(r, kind, 31); n != 0 {
				t.Errorf("strangers have places for %d callers of kind %v", n, kind)
			}
		}
	}
	stop(t, leader)
	stop(t, others[0])
	rest := others[1]
	until(t, "it has no master", func() bool { return rest.CheckSender("x/y") == nil })
	for _, kind := range []peerconn.Kind{peerconn.Raft, peerconn.Call} {
		if n := places(rest, kind, 31); n == 0 || n > 4 {
			t.Errorf("strangers have places for %d callers of kind %v", n, kind)
		}
	}
	back := append(again(t, []*Replica{leader, others[0]}), rest)
	leader, epoch := lead(t, back...)
	write(t, leader, epoch, "a", 30)
	same(t, leader, back...)
}
