//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

// TestScriptOnProcesses runs testdata/script on three processes: the cell in
// memory must be no kinder than that.
func TestScriptOnProcesses(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	c := cell.New(t, cell.Options{Args: []string{"--heartbeat-timeout=5s"}})
	testscript.Run(t, params(t, "testdata/script", strings.Join(c.URLs(), ",")))
}

// TestWatchAndPutOverAChangeOfMaster: stout watch misses nothing, and stout put
// --ephemeral keeps its file, while the master is killed.
func TestWatchAndPutOverAChangeOfMaster(t *testing.T) {
	testrun.E2E(t)
	c := cell.New(t, cell.Options{})
	t.Setenv("STOUT_SERVER", strings.Join(c.URLs(), ","))
	ctx := cell.Bounded(t)
	stout := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "stout", args...)
		cmd.Stderr = os.Stderr
		return cmd
	}
	put := func(content string) {
		t.Helper()
		if err := stout("put", "/app/conf", content).Run(); err != nil {
			t.Fatal(err)
		}
	}
	told := begin(t, stout("watch", "/app/", "--after", "0"))
	keeping := stout("put", "/app/server", "here", "--ephemeral", "--ttl", "20s", "--", "sh", "-c", "echo up; read end")
	release, err := keeping.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, keeping)("up")
	told("/app/server")
	put("1")
	told("file_created")

	old := c.Ready(t)
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	c.WaitMasterOf(t, c.Others(old)...)
	put("2")
	told("file_changed    /app/conf")
	if got, err := stout("get", "/app/server").Output(); err != nil || string(got) != "here" {
		t.Errorf("the ephemeral file is %q, %v", got, err)
	}
	_ = release.Close()
	if err := keeping.Wait(); err != nil && keeping.ProcessState.ExitCode() != 1 { // read has met the end
		t.Error(err)
	}
	told("file_deleted    /app/server  session_ended")
}

// begin starts a command. The function returned waits for the next line of its
// output that has the text in it; nothing else of it may come before.
func begin(t *testing.T, cmd *exec.Cmd) (told func(text string)) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := lines(t.Context(), out)
	return func(text string) {
		t.Helper()
		if line, ok := <-lines; !ok || !strings.Contains(line, text) {
			t.Errorf("%s told %q; wanted %q", fmt.Sprint(cmd.Args[1:3]), line, text)
		}
	}
}

// lines returns the lines of a stream, until it or ctx ends.
func lines(ctx context.Context, from io.Reader) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		for in := bufio.NewScanner(from); in.Scan(); {
			select {
			case out <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
