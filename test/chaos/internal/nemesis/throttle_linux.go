package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// blkio is the directory where cgroups of version 1 throttle disks.
const blkio = "/sys/fs/cgroup/blkio"

// throttle limits a process's writes per second to the disk of the given
// directory, until release is called. It fails without permission; release then
// does nothing.
func throttle(pid int, dir string, perSecond int) (release func() error, err error) {
	nothing := func() error { return nil }
	var at syscall.Stat_t
	if err := syscall.Stat(dir, &at); err != nil {
		return nothing, err
	}
	// A partition cannot be throttled: sysfs shows the disk that it belongs to.
	device := fmt.Sprintf("%d:%d", unix.Major(at.Dev), unix.Minor(at.Dev))
	if whole, err := os.ReadFile(filepath.Join("/sys/dev/block", device, "..", "dev")); err == nil {
		device = string(whole[:len(whole)-1])
	}
	home, err := groupOf(pid)
	if err != nil {
		return nothing, err
	}
	group := filepath.Join(home, "stout-chaos-"+strconv.Itoa(pid))
	if err := os.Mkdir(group, 0o755); err != nil {
		return nothing, err
	}
	move := func(to string) error {
		err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
		if errors.Is(err, syscall.ESRCH) {
			return nil // the process has ended
		}
		return err
	}
	limit := fmt.Sprintf("%s %d", device, perSecond)
	if err := os.WriteFile(filepath.Join(group, "blkio.throttle.write_iops_device"), []byte(limit), 0o644); err != nil {
		return nothing, errors.Join(err, os.Remove(group))
	}
	release = func() error { return errors.Join(move(home), os.Remove(group)) }
	if err := move(group); err != nil {
		return nothing, errors.Join(err, release())
	}
	return release, nil
}

// groupOf returns the directory of the cgroup that throttles a process's disks.
func groupOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) { // id:controllers:path, cgroups(7)
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 && fields[1] == "blkio" {
			return filepath.Join(blkio, fields[2]), nil
		}
	}
	return "", fmt.Errorf("process %d is in no cgroup of the blkio controller: %w", pid, errors.ErrUnsupported)
}
