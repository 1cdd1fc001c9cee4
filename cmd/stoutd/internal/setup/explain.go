package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stoutlock/stout/cmd/stoutd/config"
)

// ExplainListen adds to an error of listening the setting, its value and source, the
// reason and the cure. It returns other errors unchanged.
func ExplainListen(c *config.Config, setting, address string, err error) error {
	if op := (*net.OpError)(nil); !errors.As(err, &op) || op.Op != "listen" {
		return err
	}
	host, port, _ := net.SplitHostPort(address)
	unknown := (*net.DNSError)(nil)
	var reason string
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		reason = fmt.Sprintf("the address is in use; is another stoutd running? `ss -ltnp sport = :%s` (Linux) or `lsof -i :%s` shows the program", port, port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		reason = fmt.Sprintf("this machine has no address %s; listen on one of its addresses, or on 0.0.0.0 for all of them (others dial the addresses in the list of replicas)", host)
	case errors.Is(err, syscall.EACCES):
		reason = fmt.Sprintf("this process may not listen on port %s; use one above 1023, or give the process CAP_NET_BIND_SERVICE", port)
	case errors.As(err, &unknown):
		reason = fmt.Sprintf("host %q has no known address (%s); listen on an address of this machine, or on 0.0.0.0 for all of them", host, unknown.Err)
	default:
		reason = err.Error()
	}
	return fmt.Errorf("%s %q (%s): %s", setting, address, c.Source(setting), reason)
}

// ExplainDataDir does the same for the system's errors about the data directory or a
// file in it.
func ExplainDataDir(c *config.Config, dir string, err error) error {
	at := (*fs.PathError)(nil)
	if errors.As(err, &at) {
		if !Within(at.Path, dir) && !Within(dir, at.Path) {
			return err
		}
		err = at
	}
	cure := DiskCure(err)
	switch {
	case cure != "":
	case at == nil:
		return err
	case errors.Is(err, fs.ErrPermission):
		cure = fmt.Sprintf("it must belong to the user of this process (id %d); `chown -R` it, or run stoutd as its owner", os.Geteuid())
	case errors.Is(err, syscall.ENOTDIR):
		cure = "it must be a directory, and there is a file"
	case errors.Is(err, fs.ErrNotExist):
		cure = "it cannot be created there; is its file system mounted?"
	default:
		return fmt.Errorf("data-dir %q (%s): %w", c.DataDir, c.Source("data-dir"), err)
	}
	return fmt.Errorf("data-dir %q (%s): %w: %s", c.DataDir, c.Source("data-dir"), err, cure)
}

// DiskCure returns the cure for a file system that refuses writes; empty for other
// errors. The libraries return some errors as text only.
func DiskCure(err error) string {
	is := func(all ...syscall.Errno) bool {
		return slices.ContainsFunc(all, func(e syscall.Errno) bool { return errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) })
	}
	switch {
	case is(syscall.EROFS):
		return "its file system is mounted read-only; the kernel's log (`dmesg`) has the reason; mount it for writing"
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return "its file system is full; free some space, and start again"
	case is(syscall.EFBIG):
		return "a file reached the limit on the size of files; raise the limit (LimitFSIZE of systemd, ulimit -f), and start again"
	case is(syscall.EIO):
		return "its disk fails; see the kernel's log (`dmesg`)"
	}
	return ""
}

// Within reports whether path is dir or below it.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
