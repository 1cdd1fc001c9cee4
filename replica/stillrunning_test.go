package replica

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/peerconn"
)

// stopped returns the directory of a founded cell of one member, opened while
// no replica runs on it, with the id of that cell.
func stopped(t *testing.T) (o Options, cellID string, old *Stopped) {
	t.Helper()
	o = options(t, 1)[0]
	cellID, err := saved(t).Found(o, 5000)
	must(t, err)
	old, err = OpenStopped(o)
	must(t, err)
	t.Cleanup(func() { must(t, old.Close()) })
	return o, cellID, old
}

// says reports whether err contains what; an empty what means no error.
func says(err error, what string) bool {
	if what == "" || err == nil {
		return what == "" && err == nil
	}
	return strings.Contains(err.Error(), what)
}

// stillRuns asks until the error says what it should, or is another one. On a
// loaded machine a connection may be late, which reads as no error, or the
// answer to the hello.
func stillRuns(t *testing.T, old *Stopped, given []membership.Member, gone []string, should string) (err error) {
	t.Helper()
	until(t, "an answer in time", func() bool {
		err = old.StillRuns(t.Context(), given, gone, nil)
		return says(err, should) || err != nil && !strings.Contains(err.Error(), "does not answer the hello")
	})
	return err
}

// TestStillRunsUnderItsOwnName: a directory that took this one's place counts
// as running. One that waits to be admitted, or belongs to another cell, does
// not.
func TestStillRunsUnderItsOwnName(t *testing.T) {
	t.Parallel()
	o, id, old := stopped(t)
	for _, tt := range []struct{ cellID, directory, says string }{
		{id, "00c0ffee00c0ffee", "with directory 00c0ffee00c0ffee, in place of this one"},
		{"0123456789abcdef", "00c0ffee00c0ffee", ""},
		{"", "00c0ffee00c0ffee", ""},
	} {
		in, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		at := in.Addr().String()
		other := peerconn.Listen(in, peerconn.Rules{
			Admit: func(peerconn.Hello) ([]byte, error) {
				return cbor.Marshal(admission.Info{Cell: o.Cell, ID: o.ID, Directory: tt.directory, CellID: tt.cellID, RaftAddr: at})
			},
			Members: func() []string { return nil },
		})
		err = stillRuns(t, old, []membership.Member{{ID: o.ID, RaftAddr: at}}, nil, tt.says)
		if !says(err, tt.says) {
			t.Errorf("directory %s of cell %q answers: %v", tt.directory, tt.cellID, err)
		}
		must(t, other.Close())
	}
}

// TestStillRunsThoughItDoesNotAnswer: anything that accepts connections at a
// member's address counts as that member, unless the operator gives it as gone.
// A member that answers always counts. Only an address that accepts no
// connections is free.
func TestStillRunsThoughItDoesNotAnswer(t *testing.T) {
	t.Parallel()
	o, id, old := stopped(t)
	listen := func() net.Listener {
		in, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { _ = in.Close() })
		return in
	}
	judged := func(judge peerconn.Admit) string {
		l := peerconn.Listen(listen(), peerconn.Rules{Admit: judge, Members: func() []string { return nil }})
		t.Cleanup(func() { must(t, l.Close()) })
		return l.Addr().String()
	}
	refuses := judged(func(peerconn.Hello) ([]byte, error) { return nil, errors.New("this is replica r3, not r2") })
	answers := judged(func(peerconn.Hello) ([]byte, error) {
		return cbor.Marshal(admission.Info{Cell: o.Cell, ID: "r2", Directory: "00c0ffee00c0ffee", CellID: id, RaftAddr: "there"})
	})
	another := judged(func(peerconn.Hello) ([]byte, error) {
		return cbor.Marshal(admission.Info{Cell: o.Cell, ID: "r2", Directory: "00c0ffee00c0ffee", CellID: "another", RaftAddr: "there"})
	})
	hangs := listen().Addr().String() // it takes connections as the system does for a process that is stopped
	closing := listen()
	go func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	nobody := listen()
	must(t, nobody.Close())
	for _, tt := range []struct {
		what string
		at   []string
		gone []string
		says string // empty for none
	}{
		{"nothing listens", []string{nobody.Addr().String()}, nil, ""},
		{"it refuses", []string{refuses}, nil, "replica r2 of this cell may run: its address " + refuses + " accepts connections (refused: this is replica r3"},
		{"it hangs", []string{hangs}, nil, hangs + " accepts connections (the program there does not answer"},
		{"it ends connections", []string{closing.Addr().String()}, nil, "accepts connections (the program there closes connections"},
		{"one of its addresses hangs", []string{nobody.Addr().String(), hangs}, nil, "add --gone r2"},
		{"one of its addresses is another cell's", []string{another, refuses}, nil, "may run"},
		{"another cell's", []string{another}, nil, ""},
		{"another program has its port", []string{refuses, hangs}, []string{"r2"}, ""},
		{"another program is said to have its port", []string{hangs, answers}, []string{"r2"}, "replica r2 of this cell runs, at there"},
		{"one who is gone is mistyped", nil, []string{"r9"}, `replica "r9" was given as gone but is not in this cell; its replicas are r2`},
	} {
		given := []membership.Member{{ID: "r2"}}
		for _, at := range tt.at {
			given = append(given, membership.Member{ID: "r2", RaftAddr: at})
		}
		if err := stillRuns(t, old, given, tt.gone, tt.says); !says(err, tt.says) {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}
