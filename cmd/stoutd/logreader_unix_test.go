//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestLogWithoutAReader: without a reader of its log a replica becomes master, serves
// and ends, whether the pipe is full or its reader is gone.
func TestLogWithoutAReader(t *testing.T) {
	for name, blind := range map[string]func(t *testing.T, reader, log *os.File){
		"full": func(t *testing.T, _, log *os.File) { fill(t, log) },
		"gone": func(_ *testing.T, reader, _ *os.File) { reader.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader, log, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			defer log.Close()
			blind(t, reader, log)
			url := "http://127.0.0.1:" + freePort(t)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "--dev", "--api-listen", strings.TrimPrefix(url, "http://"), "--raft-listen", "127.0.0.1:0", "--log-level", "debug")
			cmd.Env = append(os.Environ(), asStoutd+"=1")
			cmd.Stdout, cmd.Stderr = log, log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			put(t, url+lockapi.RouteFiles+"/kept", ended)
			if gone := name == "gone"; gone == strings.Contains(get(t, url+"/metrics"), "\nstout_log_lines_dropped_total 0\n") {
				t.Error("the lines that were dropped are not counted")
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("SIGTERM ended it with %v", err)
			}
		})
	}
}

// fill fills a pipe.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	fd := int(pipe.Fd())
	for _, n := range []int{4096, 1} {
		if err := syscall.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
		for err := error(nil); err == nil; {
			_, err = syscall.Write(fd, make([]byte, n))
		}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

// put repeats a PUT until it succeeds. The process must not end before.
func put(t *testing.T, url string, ended <-chan error) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode < 300 {
				return
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-again.C:
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
