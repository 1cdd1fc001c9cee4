package disk_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestFullDisk: a replica that cannot write ends with exit code 74, and the
// others continue without it. The replica resumes where it was when there is
// space again. A limit on the size of the process's files simulates the full
// disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for store := range damagesOf {
		t.Run(store, func(t *testing.T) { testFullDisk(t, store) })
	}
}

func testFullDisk(t *testing.T, store string) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: append([]string{"--log-store=" + store}, settings...)})
	master := c.Ready(t)
	full := c.Others(master)[0]
	info, err := os.Stat(logFile(full))
	must(t, err)
	limit := unix.Rlimit{Cur: uint64(info.Size()), Max: uint64(info.Size())}
	must(t, unix.Prlimit(full.PID(), unix.RLIMIT_FSIZE, &limit, nil))
	for i := 0; full.Running() && i < 200; i++ {
		req := lockapi.NewSessionRequest()
		req.Meta = map[string]string{"padding": strings.Repeat("x", 30<<10)}
		_, err := cell.Insist(cell.Bounded(t), []*cell.Replica{master}, http.MethodPost, lockapi.RouteSessions, req, nil)
		must(t, err)
	}
	select {
	case <-full.Exited():
	case <-cell.Bounded(t).Done():
		t.Fatal("the replica continues although its disk is full")
	}
	if code, words := full.ExitState(); code != 74 || !strings.Contains(full.LogTail(1), "file too large") || !strings.Contains(full.LogTail(1), `"cure":"data-dir `) {
		t.Errorf("%s; want exit code 74, the reason and the cure:\n%s", words, full.LogTail(3))
	}
	work(t, master, "without-it", 5)
	must(t, full.Start())
	agree(t, c, c.Ready(t))
}
