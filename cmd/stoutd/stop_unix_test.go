//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asStoutd, in the environment, makes the test program run as stoutd.
const asStoutd = "TEST_OF_STOUTD_IS_STOUTD"

func TestMain(m *testing.M) {
	if os.Getenv(asStoutd) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestSignalWhileTheFileIsAPipe: SIGTERM ends a process that reads its settings, or
// a backup, from a pipe that stays empty.
func TestSignalWhileTheFileIsAPipe(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		code int
	}{
		{"serve", []string{"--config"}, exitOK},
		{"config", []string{"config", "--config"}, exitStart}, // it has no settings to show
		{"restore", []string{"restore", "--from"}, exitStart},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := pipe(t, t.TempDir(), "r1.yaml")
			cmd := exec.CommandContext(t.Context(), os.Args[0], append(test.args, name)...)
			cmd.Env = append(os.Environ(), asStoutd+"=1")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// The call returns when stoutd has opened the pipe, too.
			writer, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer writer.Close()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(stderr.String(), "stopped while reading it") {
				t.Errorf("%s, stderr:\n%s", cmd.ProcessState, stderr.String())
			}
		})
	}
}

// TestStopWhileTheDiskHangs: a read that hangs, as on a failed disk, delays the end of
// the process by no more than shutdown-timeout.
func TestStopWhileTheDiskHangs(t *testing.T) {
	dir := t.TempDir()
	pipe(t, dir, "replica.json")
	code, _, stderr := invoke(t, append(replicaFlags(dir), "--shutdown-timeout", "100ms",
		"--api-listen", "127.0.0.1:"+freePort(t))...)
	if code != exitStart || !strings.Contains(stderr, "stopped during the start, which has not ended within 100ms") {
		t.Errorf("exit code %d, stderr:\n%s", code, stderr)
	}
}

// TestDevSaysWhatToTry: --dev prints commands with the address of the cell.
func TestDevSaysWhatToTry(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	code := make(chan int)
	go func() {
		code <- run(ctx, devFlags("127.0.0.1:0", "--log-level", "error"), write, io.Discard)
		_ = write.Close()
	}()
	text := make([]byte, 4096)
	n, err := read.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	welcome := string(text[:n])
	for _, want := range []string{"A cell of one replica serves at http://127.0.0.1:", "curl -s http://127.0.0.1:", "stout --server http://127.0.0.1:", "/ui/\n"} {
		if !strings.Contains(welcome, want) {
			t.Errorf("no %q in:\n%s", want, welcome)
		}
	}
	if strings.Contains(welcome, ":0 ") || strings.Contains(welcome, ":0/") {
		t.Errorf("port 0 in:\n%s", welcome)
	}
	cancel()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
}

// pipe makes a named pipe. At the end of the test it releases pending opens.
func pipe(t *testing.T, dir, base string) string {
	t.Helper()
	name := filepath.Join(dir, base)
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f, err := os.OpenFile(name, os.O_RDWR, 0); err == nil {
			_ = f.Close()
		}
	})
	return name
}
