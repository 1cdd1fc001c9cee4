package e2e_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// recoverInto runs stoutd recover on a replica's directory.
func recoverInto(r *cell.Replica, into string, more ...string) (output string, err error) {
	args := append([]string{"recover", "--into", into}, more...)
	out, err := exec.Command(r.Command()[0], append(args, r.Command()[1:]...)...).CombinedOutput()
	return string(out), err
}

// TestRecoverLostMajority: after the loss of two directories of three, a cell
// is founded from the third. It is refused while another replica of the old
// cell runs, and asks for confirmation. The first master waits for the longest
// lease of the old cell; its tokens and revisions are above all earlier ones.
func TestRecoverLostMajority(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Secure: true})
	master := c.Ready(t)
	survivor, other := c.Others(master)[0], c.Others(master)[1]
	s := open(t, master, aWhile)
	held := acquire(t, master, "/kept", ask(s.ID, "", 0))
	wrote := call[lockapi.File](t, master, http.MethodPut, lockapi.RouteFiles+"/kept", nil)
	old := call[lockapi.Members](t, master, http.MethodGet, lockapi.RouteMembers, nil).CellID
	wantApplied(t, survivor, held)

	into := survivor.DataDir + ".new"
	refused := func(what string, more ...string) {
		t.Helper()
		output, err := recoverInto(survivor, into, append(more, "--yes")...)
		if _, there := os.Stat(into); err == nil || !os.IsNotExist(there) || !strings.Contains(output, what) {
			t.Fatalf("%v, %v: %s", err, there, output)
		}
	}
	refused("it is in use")
	must(t, survivor.Kill())
	refused("runs, at")
	must(t, master.Kill())
	must(t, os.RemoveAll(master.DataDir))
	refused("replica " + other.ID + " of this cell runs")
	must(t, other.Kill())
	must(t, os.RemoveAll(other.DataDir))
	if output, err := recoverInto(survivor, into); err == nil || !strings.Contains(output, "not confirmed: nothing was changed") {
		t.Fatalf("%v: %s", err, output)
	}
	if output, err := recoverInto(survivor, into, "--yes"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	must(t, survivor.Start())
	<-survivor.Exited()
	if code, words := survivor.ExitState(); code != 1 || !strings.Contains(survivor.LogTail(3), "the cell was recovered from it") {
		t.Errorf("the old directory: %d, %s: %s", code, words, survivor.LogTail(3))
	}

	began := time.Now()
	must(t, survivor.StartWith("--data-dir", into))
	waits, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if _, err := c.WaitMaster(waits); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited < 55*time.Second {
		t.Errorf("it serves after %s; a lease of the old cell may last a minute", waited)
	}
	if now := call[lockapi.Members](t, survivor, http.MethodGet, lockapi.RouteMembers, nil); now.CellID == old || len(now.Members) != 1 {
		t.Errorf("%+v, and the old cell was %s", now, old)
	}
	if l := read(t, survivor, "/kept"); l.State != lockapi.StateDelayed {
		t.Errorf("/kept is %s", l.State)
	}
	call[lockapi.File](t, survivor, http.MethodGet, lockapi.RouteFiles+"/kept?as=json", nil)
	again := call[lockapi.File](t, survivor, http.MethodPut, lockapi.RouteFiles+"/new", nil)
	next := acquire(t, survivor, "/new", ask(open(t, survivor, aWhile).ID, "", 0))
	if again.Revision <= wrote.Revision || next.Token <= held.Token {
		t.Errorf("revision %d after %d, token %d after %d", again.Revision, wrote.Revision, next.Token, held.Token)
	}
}
