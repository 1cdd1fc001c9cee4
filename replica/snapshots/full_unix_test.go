//go:build unix

package snapshots

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// TestFullDiskKeepsNoPart: what could be written of a snapshot does not fill the
// disk any longer. A limit on the size of files simulates the full disk.
func TestFullDiskKeepsNoPart(t *testing.T) {
	store, err := Open(t.TempDir(), zerolog.Nop(), func(uint64) error { return nil })
	must(t, err)
	_, wire := raft.NewInmemTransport("")
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	for name, test := range map[string]struct {
		size int
		ends func(raft.SnapshotSink) error
	}{
		"cancelled": {64 << 10, raft.SnapshotSink.Cancel},
		"closed":    {32<<10 + 100, raft.SnapshotSink.Close}, // the last bytes are in a buffer
	} {
		sink, err := store.Create(raft.SnapshotVersionMax, 7, 3, raft.Configuration{}, 1, wire)
		must(t, err)
		full := before
		full.Cur = 32 << 10
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
		_, wrote := sink.Write(make([]byte, test.size))
		ended := test.ends(sink)
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		if wrote == nil && ended == nil {
			t.Errorf("%s: no write failed", name)
		}
		left, err := os.ReadDir(store.Dir())
		must(t, err)
		if len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}
