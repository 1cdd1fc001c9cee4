package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutd/config"
)

// TestWhatTheSystemRefuses: each error names setting, value, source, reason and
// cure.
func TestWhatTheSystemRefuses(t *testing.T) {
	c := &config.Config{DataDir: "data"}
	listen := func(err error) error {
		return fmt.Errorf("listen for the others: %w", &net.OpError{Op: "listen", Net: "tcp", Err: err})
	}
	path := func(name string, err error) error {
		return fmt.Errorf("data directory: %w", &fs.PathError{Op: "open", Path: name, Err: err})
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{listen(syscall.EADDRINUSE), "raft-listen \"h:80\" (default): the address is in use; is another stoutd running? `ss -ltnp sport = :80`"},
		{listen(syscall.EADDRNOTAVAIL), `raft-listen "h:80" (default): this machine has no address h; listen on one of its addresses`},
		{listen(syscall.EACCES), `raft-listen "h:80" (default): this process may not listen on port 80; use one above 1023`},
		{listen(&net.DNSError{Err: "no such host", Name: "h"}), `raft-listen "h:80" (default): host "h" has no known address (no such host); listen on`},
		{listen(syscall.EMFILE), `raft-listen "h:80" (default): listen for the others: listen tcp: too many open files`},
		{path("/data/r1/replica.json", syscall.EACCES), `data-dir "data" (default): open /data/r1/replica.json: permission denied: it must belong to the user of this process`},
		{path("/data/r1", syscall.EROFS), `read-only file system: its file system is mounted read-only`},
		{path("/data/r1/raft.db", syscall.ENOSPC), `no space left on device: its file system is full; free some space`},
		{path("/data/r1/raft.db", syscall.EIO), "its disk fails; see the kernel's log"},
		{path("/data", syscall.ENOTDIR), `open /data: not a directory: it must be a directory, and there is a file`},
		{path("/data/r1", syscall.ENOENT), `is its file system mounted?`},
		{errors.New("make /data/r1/raft.db: file resize error: no space left on device"), `data-dir "data" (default): make /data/r1/raft.db: file resize error: no space left on device: its file system is full; free some space`},
		{path("/data/r1", syscall.EXDEV), `data-dir "data" (default): open /data/r1: `},
	} {
		got := ExplainDataDir(c, "/data/r1", ExplainListen(c, "raft-listen", "h:80", test.err)).Error()
		if !strings.Contains(got, test.want) || strings.Contains(got, "\n") {
			t.Errorf("%v is explained as\n%s\nwant %s", test.err, got, test.want)
		}
	}
	for _, other := range []error{errors.New("raft.db is damaged"), path("/data/r10", syscall.EIO), &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}} {
		if got := ExplainDataDir(c, "/data/r1", ExplainListen(c, "raft-listen", "h:80", other)); got != other {
			t.Errorf("%v became %v", other, got)
		}
	}
}
