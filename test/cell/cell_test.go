package cell

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/freeport"
	"github.com/stoutlock/stout/internal/testrun"
)

func TestMain(m *testing.M) {
	testrun.Wait(8)
	os.Exit(m.Run())
}

// bounded returns a context for one step of a test. Its limit is no
// expectation: it only ends a test that hangs.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Step)
	t.Cleanup(cancel)
	return ctx
}

func waitMaster(t *testing.T, c *Cell) *Replica {
	t.Helper()
	master, err := c.WaitMaster(bounded(t))
	must(t, err)
	return master
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRefusedDataDirectories: a replica leaves a foreign data directory
// untouched and logs the reason.
func TestRefusedDataDirectories(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	dir := t.TempDir()
	first := NewPrepared(t, Options{Dir: dir, Name: "one", Size: 1})
	owner := first.Replicas()[0]
	must(t, owner.Start())
	waitMaster(t, first)

	// Each case is a separate cell; its r1 gets the owner's data directory.
	refuse := func(t *testing.T, opts Options, want string) {
		t.Helper()
		c := NewPrepared(t, opts)
		r := c.Replicas()[0]
		must(t, r.StartWith("--data-dir", owner.DataDir))
		select {
		case <-r.Exited():
		case <-bounded(t).Done():
			t.Fatalf("it was not refused")
		}
		if code, words := r.ExitState(); code != 1 || !strings.Contains(r.LogTail(5), want) {
			t.Errorf("%s; want exit code 1 and %q in the log:\n%s", words, want, r.LogTail(5))
		}
	}
	t.Run("in use", func(t *testing.T) { refuse(t, Options{Name: "one", Size: 1}, "in use") })
	must(t, owner.Terminate(bounded(t)))
	t.Run("of another cell", func(t *testing.T) { refuse(t, Options{Name: "two", Size: 1}, `belongs to cell "one", not to "two"`) })
	t.Run("of another replica", func(t *testing.T) {
		opts := Options{Name: "one", Size: 2, Args: []string{"--id", "r2"}}
		refuse(t, opts, `belongs to replica "r1", not to "r2"`)
	})
	t.Run("of a newer format", func(t *testing.T) {
		name := filepath.Join(owner.DataDir, "replica.json")
		text, err := os.ReadFile(name)
		must(t, err)
		newer := regexp.MustCompile(`"format": \d+`).ReplaceAll(text, []byte(`"format": 99`))
		must(t, os.WriteFile(name, newer, 0o600))
		refuse(t, Options{Name: "one", Size: 1}, "format 99, written by a newer release")
		must(t, os.WriteFile(name, text, 0o600))
	})
	must(t, owner.Start())
	waitMaster(t, first)
}

// TestWaitMasterEndsEarly: WaitMaster does not wait once all replicas have
// ended.
func TestWaitMasterEndsEarly(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	c := NewPrepared(t, Options{Size: 1})
	r := c.Replicas()[0]
	must(t, r.StartWith("--log-level", "loud"))
	_, err := c.WaitMaster(bounded(t))
	if err == nil || !strings.Contains(err.Error(), "every replica has ended") {
		t.Errorf("WaitMaster: %v", err)
	}
	if code, _ := r.ExitState(); code != 78 || !strings.Contains(r.LogTail(3), `log-level "loud"`) {
		t.Errorf("exit code %d, log:\n%s", code, r.LogTail(3))
	}
}

// TestDevLeavesNothingBehind: stoutd --dev is a cell of one, in a directory
// that is removed at its end.
func TestDevLeavesNothingBehind(t *testing.T) {
	testrun.E2E(t)
	binary, err := stoutd()
	must(t, err)
	port, err := freeport.Get() // freeport keeps a file in the default temporary directory
	must(t, err)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r := &Replica{
		ID: "dev", URL: "http://" + freeport.Address(port), LogFile: filepath.Join(t.TempDir(), "dev.log"), binary: binary,
		args: []string{"--dev", "--api-listen", freeport.Address(port), "--raft-listen", "127.0.0.1:0"},
	}
	must(t, r.Start())
	t.Cleanup(func() { _ = r.Kill() })
	err = Wait(bounded(t), "the replica is master", func(ctx context.Context) error {
		view, err := r.Cell(ctx)
		if err == nil && !view.Lease.Held {
			err = fmt.Errorf("no lease: %+v", view)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, r.LogTail(20))
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 1 {
		t.Errorf("while it runs: %v %v, want one directory", entries, err)
	}
	must(t, r.Terminate(bounded(t)))
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}
