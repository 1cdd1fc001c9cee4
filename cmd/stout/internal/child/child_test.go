//go:build unix

package child

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testLease is a lease controlled by the test.
type testLease struct {
	mu   sync.Mutex
	left time.Duration
}

func (l *testLease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

func (l *testLease) set(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = left
}

// await waits for a file that the command under test makes.
func await(t *testing.T, file string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s was not made", file)
		}
	}
}

// running is a shell script under test.
type running struct {
	dir     string
	lease   *testLease
	signals chan os.Signal
	revoked chan struct{}
	events  []Event // read after ended
	ended   chan Result
}

// run runs a script that makes the file ready, and returns once it has.
func run(t *testing.T, script string) *running {
	t.Helper()
	r := &running{
		dir: t.TempDir(), lease: &testLease{left: time.Hour},
		signals: make(chan os.Signal, 1), revoked: make(chan struct{}), ended: make(chan Result, 1),
	}
	cmd := Command{
		Args: []string{"sh", "-c", script}, Env: append(os.Environ(), "D="+r.dir), Stderr: os.Stderr,
		Margins: DefaultMargins(12 * time.Second), Lease: r.lease.remaining, Signals: r.signals, Revoked: r.revoked,
		Notice: func(e Event) { r.events = append(r.events, e) },
	}
	go func() {
		result, err := Run(cmd)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		r.ended <- result
	}()
	await(t, filepath.Join(r.dir, "ready"))
	return r
}

func (r *running) wantEnd(t *testing.T, want Result, events ...Event) {
	t.Helper()
	if got := <-r.ended; got != want {
		t.Errorf("ended with %+v, want %+v", got, want)
	}
	if len(r.events) != len(events) {
		t.Fatalf("events %v, want %v", r.events, events)
	}
	for i := range events {
		if r.events[i] != events[i] {
			t.Errorf("events %v, want %v", r.events, events)
		}
	}
}

const (
	loop     = `touch $D/ready; while :; do sleep 0.01; done`
	exitTold = `trap "touch $D/told; exit 5" TERM; ` + loop
	deafTold = `trap "touch $D/told" TERM; ` + loop
)

func TestAskedAndEnds(t *testing.T) {
	r := run(t, exitTold)
	r.lease.set(1900 * time.Millisecond)
	r.wantEnd(t, Result{Code: 5, Lost: true}, Asked)
}

func TestAskedAndKilled(t *testing.T) {
	r := run(t, deafTold)
	r.lease.set(1900 * time.Millisecond)
	await(t, filepath.Join(r.dir, "told"))
	r.lease.set(900 * time.Millisecond)
	r.wantEnd(t, Result{Code: 128 + int(syscall.SIGKILL), Lost: true}, Asked, Killed)
}

// A command that was asked to stop is not killed after a renewal. It may end in
// its own time, but stays marked as asked.
func TestAskedThenRenewed(t *testing.T) {
	r := run(t, `trap "touch $D/told" TERM; touch $D/ready; until [ -e $D/go ]; do sleep 0.01; done; exit 0`) // else the last sleep, which also gets the signal, would decide the code
	r.lease.set(1900 * time.Millisecond)
	await(t, filepath.Join(r.dir, "told"))
	r.lease.set(time.Hour)
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.wantEnd(t, Result{Lost: true}, Asked)
}

// After a revocation the command is asked at once and gets some time to end.
func TestRevoked(t *testing.T) {
	r := run(t, exitTold)
	close(r.revoked)
	r.wantEnd(t, Result{Code: 5, Lost: true}, Asked)
}

func TestRevokedAndKilled(t *testing.T) {
	r := run(t, deafTold)
	close(r.revoked)
	await(t, filepath.Join(r.dir, "told"))
	r.wantEnd(t, Result{Code: 128 + int(syscall.SIGKILL), Lost: true}, Asked, Killed)
}

// A command that was stopped when its lease ended must not run again: SIGCONT
// is passed on only after the lease was looked at.
func TestContinuedTooLate(t *testing.T) {
	r := run(t, `touch $D/ready; kill -STOP $$; touch $D/continued; `+loop)
	r.lease.set(0)
	r.signals <- syscall.SIGCONT
	r.wantEnd(t, Result{Code: 128 + int(syscall.SIGKILL), Lost: true}, Killed)
	if _, err := os.Stat(filepath.Join(r.dir, "continued")); err == nil {
		t.Error("the command went on after its lease had ended")
	}
}

func TestNotStartedOnShortLease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	lease := func() time.Duration { return time.Second }
	result, err := Run(Command{Args: []string{"touch", file}, Margins: DefaultMargins(12 * time.Second), Lease: lease})
	if err != nil || !result.Lost {
		t.Errorf("got %+v, %v; want it lost", result, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}
