//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestStartOnAFullDisk: a start that cannot write prints the cure, at each step. The
// limit on the size of files is in blocks of 512 bytes.
func TestStartOnAFullDisk(t *testing.T) {
	for _, blocks := range []int{0, 8, 64} {
		t.Run(fmt.Sprint(blocks), func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-c", fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, blocks), os.Args[0]},
				append(replicaFlags(t.TempDir()), "--api-listen", "127.0.0.1:"+freePort(t), "--raft-listen", "127.0.0.1:"+freePort(t))...)
			cmd := exec.CommandContext(t.Context(), "sh", args...)
			cmd.Env = append(os.Environ(), asStoutd+"=1")
			said, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != exitStart || !strings.Contains(string(said), `data-dir "`) || !strings.Contains(string(said), "a file reached the limit on the size of files; raise") {
				t.Errorf("%s:\n%s", cmd.ProcessState, said)
			}
		})
	}
}
