package cell

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// TestFailingDiskWriteEndsTheReplica: when the disk refuses a write, the
// replica ends and logs the fault. The others continue without it.
func TestFailingDiskWriteEndsTheReplica(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	c := New(t, Options{})
	master := waitMaster(t, c)
	// From here on no file of the process can grow beyond this limit. The log
	// of the replica's events stays below it, its store does not.
	limit := unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	must(t, unix.Prlimit(master.PID(), unix.RLIMIT_FSIZE, &limit, nil))
	req := lockapi.NewSessionRequest()
	req.Meta = map[string]string{"padding": strings.Repeat("x", 60<<10)}
	status, err := master.Call(bounded(t), http.MethodPost, lockapi.RouteSessions, req, nil)
	t.Logf("the call that could not be stored: %d %v", status, err)
	select {
	case <-master.Exited():
	case <-bounded(t).Done():
		t.Fatal("the replica continues although its disk refuses writes")
	}
	if code, words := master.ExitState(); code != 74 || !strings.Contains(master.LogTail(3), `"message":"ending on a fault"`) || !strings.Contains(master.LogTail(3), "file too large") {
		t.Errorf("%s; want exit code 74 and the fault in the log:\n%s", words, master.LogTail(5))
	}
	if next := waitMaster(t, c); next == master {
		t.Errorf("%s is master without a process", master.ID)
	}
}

// TestHeldLogFillsItsPipe: a process cannot write to its log during a hold.
func TestHeldLogFillsItsPipe(t *testing.T) {
	script := filepath.Join(t.TempDir(), "sleeps")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700))
	c := NewPrepared(t, Options{Binary: script})
	r := c.Replica("r1")
	must(t, r.Start())
	r.HoldLog()
	end, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/2", r.PID()), os.O_WRONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer end.Close()
	raw, err := end.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		if _, err := unix.Write(int(fd), []byte("x")); err != unix.EAGAIN {
			t.Errorf("a write gets %v, want %v", err, unix.EAGAIN)
		}
	}))
}
