package child

import (
	"testing"

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
