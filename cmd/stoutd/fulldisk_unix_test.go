//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestStartOnAFullDisk: wherever the start finds no room, it prints the cure. No
// file of the process may grow past so many blocks of 512 bytes.
func TestStartOnAFullDisk(t *testing.T) {
	for _, blocks := range []int{0, 8, 64} {
		t.Run(fmt.Sprint(blocks), func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-c", fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, blocks), os.Args[0]},
				append(replicaFlags(t.TempDir()), "--api-listen", "127.0.0.1:"+freePort(t), "--raft-listen", "127.0.0.1:"+freePort(t))...)
			cmd := exec.CommandContext(t.Context(), "sh", args...)
			cmd.Env = append(os.Environ(), asStoutd+"=1")
			said, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != exitStart || !strings.Contains(string(said), `data-dir "`) || !strings.Contains(string(said), "a file may not grow so far; raise") {
				t.Errorf("%s:\n%s", cmd.ProcessState, said)
			}
		})
	}
}
