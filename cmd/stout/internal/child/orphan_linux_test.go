package child

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An orphan becomes a child of the first process of a container. It is reaped
// while the command runs, or it would stay a zombie.
func TestOrphansAreReaped(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	r := run(t, `
		( until [ -e $D/ready ]; do sleep 0.01; done & echo $! >$D/orphan )
		touch $D/ready
		for i in $(seq 1000); do kill -0 $(cat $D/orphan) 2>/dev/null || exit 7; sleep 0.01; done`)
	r.wantEnd(t, Result{Code: 7})
}

// A command that may not be killed is not reported as killed.
func TestKillRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has commands that others may not kill")
	}
	dir, events := t.TempDir(), make(chan Event, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // it ends with this goroutine
		_, err := Run(Command{
			Args:    []string{"sh", "-c", `touch $D/ready; until [ -e $D/go ]; do sleep 0.01; done`},
			Env:     append(os.Environ(), "D="+dir),
			Margins: DefaultMargins(12 * time.Second), Notice: func(e Event) { events <- e },
			Lease: func() time.Duration {
				if _, err := os.Stat(filepath.Join(dir, "ready")); err != nil {
					return time.Hour
				}
				_, _, _ = syscall.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 0) // of this thread, which may not kill it then
				return 0
			},
		})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	if e := <-events; e != Refused {
		t.Errorf("event %v", e)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Error(err)
	}
	<-ended
}
