package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// rehearsal is the part of a rehearsal's report that the tests check.
type rehearsal struct {
	Go     bool
	Report struct {
		Before, After struct {
			Master string
			Epoch  uint64
		}
		Reads, Writes struct {
			Attempts, Failed int
			GapMS            float64 `json:"longest_gap_ms"`
		}
		Own struct {
			LockKept bool `json:"lock_kept"`
			Waiters  int
			InOrder  int `json:"waiters_in_order"`
		}
		Sessions, Closed int
		Nearest          []struct {
			Session string
			LeftMS  int64 `json:"left_ms"`
		}
		Waiters struct {
			Seen, Kept int
			Overtaken  []string
		}
		Holds struct {
			Seen, Kept int
			Lost       int `json:"with_their_session"`
		}
		Verdict string
		Why     []string
	}
}

// rehearse runs stout rehearse failover against the cell.
func rehearse(t *testing.T, c *cell.Cell, args ...string) (out rehearsal, code int) {
	t.Helper()
	bin, err := cell.Stout()
	must(t, err)
	args = append([]string{"rehearse", "failover", "--yes", "--before", "1s", "--after", "3s", "-o", "json", "-s", strings.Join(c.URLs(), ",")}, args...)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(cell.Bounded(t), bin, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
			t.Fatalf("%v in %s", err, stdout.String())
		}
	}
	t.Logf("stout %s: exit code %d, %q\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out.Report.Why, stderr.String())
	return out, cmd.ProcessState.ExitCode()
}

// crowd opens sessions. Each holds a lock of its own, and all want one common
// lock: one session holds it, the others wait.
func crowd(t *testing.T, c *cell.Cell, n int) []*client.Session {
	t.Helper()
	sdk, err := client.New(c.URLs()...)
	must(t, err)
	ctx, leave := context.WithCancel(context.WithoutCancel(t.Context()))
	var all []*client.Session
	var waiting sync.WaitGroup
	for i := range n {
		s, err := sdk.NewSession(cell.Bounded(t), client.Name(fmt.Sprintf("crowd %d", i)))
		must(t, err)
		_, err = s.TryLock(cell.Bounded(t), fmt.Sprintf("/crowd/%d", i))
		must(t, err)
		all = append(all, s)
		waiting.Go(func() { _, _ = s.Lock(ctx, "/crowd/all") })
	}
	t.Cleanup(func() {
		leave()
		waiting.Wait()
		for _, s := range all {
			_ = s.Close(context.WithoutCancel(t.Context()))
		}
		_ = sdk.Close()
	})
	must(t, cell.Wait(cell.Bounded(t), "all but one wait", func(ctx context.Context) error {
		l, err := sdk.ReadLock(ctx, "/crowd/all")
		if err == nil && l.Waiters != n-1 {
			err = fmt.Errorf("%d wait", l.Waiters)
		}
		return err
	}))
	return all
}

// sound checks what every successful rehearsal reports, and that it left no
// session or lock. others is the number of sessions that come and go with their
// locks.
func (r *rehearsal) sound(t *testing.T, c *cell.Cell, sessions []*client.Session, others int) {
	t.Helper()
	got, all := &r.Report, len(sessions)+others
	if !r.Go || got.Verdict == "failed" {
		t.Errorf("go %v, verdict %s: %q", r.Go, got.Verdict, got.Why)
	}
	if got.After.Epoch <= got.Before.Epoch || got.Before.Master == got.After.Master {
		t.Errorf("%+v is master after %+v", got.After, got.Before)
	}
	if got.Sessions != all || len(got.Nearest) != min(all, 10) {
		t.Errorf("of %d sessions it saw %d, and names %d", all, got.Sessions, len(got.Nearest))
	}
	if got.Waiters.Kept < len(sessions)-1 || len(got.Waiters.Overtaken) > 0 {
		t.Errorf("waiters: %+v, of %d", got.Waiters, len(sessions)-1)
	}
	if got.Holds.Kept < len(sessions)+1 || got.Holds.Lost > 0 {
		t.Errorf("holds: %+v, of %d", got.Holds, len(sessions)+1)
	}
	if got.Writes.Attempts < 20 || got.Reads.Attempts < 20 || got.Writes.GapMS <= 0 { // about 200 attempts
		t.Errorf("writes %+v, reads %+v", got.Writes, got.Reads)
	}
	if !got.Own.LockKept || got.Own.InOrder != got.Own.Waiters || got.Own.Waiters == 0 {
		t.Errorf("its own: %+v", got.Own)
	}
	for _, s := range sessions {
		if s.Err() != nil {
			t.Errorf("session %s: %v", s.Name(), s.Err())
		}
	}
	left := call[lockapi.SessionList](t, c.Ready(t), "GET", lockapi.RouteSessions, nil)
	if len(left.Sessions) != all {
		t.Errorf("%d sessions live, and %d are ours", len(left.Sessions), all)
	}
}

// TestRehearsalByTransfer rehearses a fail-over of a cell with holders and
// waiters to a named replica.
func TestRehearsalByTransfer(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: still})
	sessions := crowd(t, c, 12)
	to := c.Others(c.Ready(t))[0]
	r, _ := rehearse(t, c, "--to", to.ID)
	r.sound(t, c, sessions, 0)
	if r.Report.After.Master != to.ID {
		t.Errorf("%s is master", r.Report.After.Master)
	}
	if r, code := rehearse(t, c, "--to", to.ID); code != 1 || r.Go {
		t.Errorf("to the master itself: exit code %d, go %v", code, r.Go)
	}
}

// TestRehearsalThatIsInterrupted leaves no session behind.
func TestRehearsalThatIsInterrupted(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: still})
	master := c.Ready(t)
	bin, err := cell.Stout()
	must(t, err)
	cmd := exec.CommandContext(cell.Bounded(t), bin, "rehearse", "failover", "--yes", "--before", "1m", "-s", strings.Join(c.URLs(), ","))
	must(t, cmd.Start())
	sessions := func() int {
		return len(call[lockapi.SessionList](t, master, "GET", lockapi.RouteSessions, nil).Sessions)
	}
	must(t, cell.Wait(cell.Bounded(t), "it has begun", func(context.Context) error {
		if n := sessions(); n != 2 {
			return fmt.Errorf("%d sessions", n)
		}
		return nil
	}))
	must(t, cmd.Process.Signal(syscall.SIGTERM)) // a shell's background job ignores SIGINT
	_ = cmd.Wait()
	if n := sessions(); n != 0 {
		t.Errorf("it ended and left %d sessions", n)
	}
	if now := c.Ready(t); now != master {
		t.Errorf("%s is master, although the rehearsal was to change nothing", now.ID)
	}
}
