package cell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHeldLogIsWholeInTheEnd: lines that a process writes while its log is held
// are in the log after FreeLog, or after the end of the process.
func TestHeldLogIsWholeInTheEnd(t *testing.T) {
	const lines = 3000 // more than a pipe holds on Linux
	for _, test := range []struct {
		name string
		run  string
		end  func(*testing.T, *Replica)
	}{
		{"freed", fmt.Sprintf("seq %d", lines), func(_ *testing.T, r *Replica) { r.FreeLog() }},
		{"killed", "echo 1; exec sleep 1000", func(t *testing.T, r *Replica) { must(t, r.Kill()) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			script, begin := filepath.Join(dir, "writes"), filepath.Join(dir, "begin")
			must(t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nread line < %s\n%s\n", begin, test.run), 0o700))
			must(t, syscall.Mkfifo(begin, 0o600))
			c := NewPrepared(t, Options{Binary: script})
			r := c.Replica("r1")
			must(t, r.Start())
			r.HoldLog()
			must(t, os.WriteFile(begin, []byte("now\n"), 0)) // blocks until the script reads
			test.end(t, r)
			<-r.Exited()
			text, err := os.ReadFile(r.LogFile)
			must(t, err)
			if got := len(strings.Fields(string(text))); test.name == "freed" && got != lines {
				t.Errorf("the log has %d lines, want %d", got, lines)
			}
		})
	}
}

// TestProgram: a replica of another program runs its command line, and can be
// killed and started again.
func TestProgram(t *testing.T) {
	r := Program("p", filepath.Join(t.TempDir(), "p.log"), "sh", "-c", "echo $0 runs", "it")
	for range 2 {
		must(t, r.Start())
		<-r.Exited()
		must(t, r.Kill())
	}
	if got := r.LogTail(10); got != "it runs\nit runs" {
		t.Errorf("the log is %q", got)
	}
}
