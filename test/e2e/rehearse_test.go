package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// rehearsal is what the report of a rehearsal says, as far as it is looked at here.
type rehearsal struct {
	Go     bool
	Report struct {
		How           string
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
		ReturnedMS int64 `json:"silenced_back_after_ms"`
		Verdict    string
		Why        []string
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

// crowd has sessions hold locks and wait for them, each for the next one's.
func crowd(t *testing.T, c *cell.Cell, n int) []*client.Session {
	t.Helper()
	sdk, err := client.New(c.URLs()...)
	must(t, err)
	ctx, leave := context.WithCancel(context.WithoutCancel(t.Context()))
	var all []*client.Session
	var waiting sync.WaitGroup
	for i := range n {
		s, err := sdk.NewSession(cell.Bounded(t), client.WithName(fmt.Sprintf("crowd %d", i)))
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

// sound checks what every rehearsal that went well says, and that it has left
// nothing behind. others are sessions that come and go with their locks.
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
	if got.Writes.Attempts < 20 || got.Reads.Attempts < 20 || got.Writes.GapMS <= 0 { // of some 200
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

// TestRehearsalByTransfer has the command rehearse a fail-over of a cell with holders
// and waiters, to a name.
func TestRehearsalByTransfer(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: still})
	sessions := crowd(t, c, 12)
	to := c.Others(c.Ready(t))[0]
	r, _ := rehearse(t, c, "--to", to.ID)
	r.sound(t, c, sessions, 0)
	if r.Report.After.Master != to.ID || r.Report.How != "transfer" {
		t.Errorf("%s is master, by %s", r.Report.After.Master, r.Report.How)
	}
	if r, code := rehearse(t, c, "--to", to.ID); code != 1 || r.Go {
		t.Errorf("to the master itself: exit code %d, go %v", code, r.Go)
	}
}

// brisk has a lease whose end is waited for without hurry.
var brisk = []string{"--heartbeat-timeout=1s"}

// TestRehearsalOfASilentMaster has the master fall silent under load: another takes
// office after its lease has run out, all sessions and places stay, the silent one
// follows again, and the report has it right.
func TestRehearsalOfASilentMaster(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: brisk})
	master := c.Ready(t)
	sessions := crowd(t, c, 12)
	l := startLoad(t, c, 4)
	l.progress(t, 60)
	r, _ := rehearse(t, c, "--kill-lease")
	l.progress(t, 60)
	l.end(t)
	got := &r.Report
	if got.How != "silence" || got.Before.Master != master.ID || got.ReturnedMS == 0 {
		t.Errorf("by %s, from %+v, back after %d ms", got.How, got.Before, got.ReturnedMS)
	}
	if term := call[lockapi.Cell](t, c.Ready(t), "GET", lockapi.RouteCell, nil).Lease.TermMS; got.Writes.GapMS < float64(term)/3 {
		t.Errorf("writes were missed for %.0f ms only, and the lease is for %d: was it outwaited?", got.Writes.GapMS, term)
	}
	r.sound(t, c, sessions, 4)
}

// TestSilenceThatIsUnsafe is refused, and changes nothing: with one of three down,
// and in a cell of one.
func TestSilenceThatIsUnsafe(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: still})
	master := c.Ready(t)
	must(t, c.Others(master)[0].Kill())
	must(t, cell.Wait(cell.Bounded(t), "it is refused", func(ctx context.Context) error {
		_, err := master.Call(ctx, http.MethodPost, lockapi.RouteSilence, nil, nil)
		if !errors.Is(err, lockapi.CodeUnsafe) {
			return fmt.Errorf("answered %v", err)
		}
		return nil
	}))
	if r, code := rehearse(t, c, "--kill-lease"); code != 1 || r.Go {
		t.Errorf("exit code %d, go %v", code, r.Go)
	}
	if now := call[lockapi.Cell](t, master, http.MethodGet, lockapi.RouteCell, nil); now.Master == nil || now.Master.ID != master.ID {
		t.Errorf("master: %+v", now.Master)
	}
}

// TestSecondSilence is refused from the first moment of the next office on: two
// masters that are silent at once would leave a cell of three without a majority.
func TestSecondSilence(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm})
	first := c.Ready(t)
	call[lockapi.Silenced](t, first, http.MethodPost, lockapi.RouteSilence, lockapi.SilenceRequest{ForMS: lockapi.MaxSilenceMS})
	next := c.Others(first)
	must(t, cell.Wait(cell.Bounded(t), "the next master refuses", func(ctx context.Context) error {
		_, err := next[0].Call(ctx, http.MethodPost, lockapi.RouteSilence, nil, nil)
		if err == nil {
			t.Fatal("a second master was told to be silent")
		}
		if !errors.Is(err, lockapi.CodeUnsafe) {
			return fmt.Errorf("answered %v", err)
		}
		return nil
	}))
}

// TestRehearsalThatIsInterrupted leaves nothing behind.
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
	must(t, cmd.Process.Signal(syscall.SIGTERM)) // a shell's background job has SIGINT ignored
	_ = cmd.Wait()
	if n := sessions(); n != 0 {
		t.Errorf("it ended and left %d sessions", n)
	}
	if now := c.Ready(t); now != master {
		t.Errorf("%s is master, and nothing was to be changed", now.ID)
	}
}
