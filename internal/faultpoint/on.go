//go:build faultpoints && unix

package faultpoint

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled reports whether points follow orders.
const Enabled = true

// Hit follows the order for a point.
func Hit(point string) { _ = Err(point) }

// Err follows the order for a point, and returns the error that it requests.
func Err(point string) error {
	for began := time.Now(); ; time.Sleep(poll) {
		action, argument := orders.of(point)
		switch action {
		case "":
			return nil
		case "full":
			return &os.PathError{Op: "write", Path: point, Err: syscall.ENOSPC}
		case "sleep":
			d, err := time.ParseDuration(argument)
			if err != nil {
				panic(fmt.Sprintf("fault point %s: %v", point, err))
			}
			if time.Since(began) >= d {
				return nil
			}
		case "hang":
		case "pause":
			if orders.first(point, action, argument) {
				stop(syscall.SIGSTOP)
			}
			return nil
		case "kill":
			if orders.first(point, action, argument) {
				stop(syscall.SIGKILL)
			}
			return nil
		default:
			panic(fmt.Sprintf("fault point %s: no action %q", point, action))
		}
	}
}

// poll is the interval at which a waiting call checks its order.
const poll = 5 * time.Millisecond

// stop sends this process a signal that it cannot catch. The signal takes a
// moment to reach every thread; the caller waits that long.
func stop(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s)
	time.Sleep(poll)
}

// file holds the orders read last.
type file struct {
	mu   sync.Mutex
	info os.FileInfo // of the file read last; nil without a file
	by   map[string][2]string
	done map[string]bool // lines already followed
}

var orders = &file{done: map[string]bool{}}

// of returns the order for a point, or empty strings. It reads the file again
// if it was replaced.
func (f *file) of(point string) (action, argument string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := os.Getenv(Variable)
	info, err := os.Stat(name)
	switch {
	case err != nil:
		f.info, f.by = nil, nil
	case f.info == nil || !os.SameFile(info, f.info) || !info.ModTime().Equal(f.info.ModTime()):
		text, err := os.ReadFile(name)
		if err != nil {
			break // the file is gone
		}
		f.info, f.by = info, parse(string(text))
	}
	order := f.by[point]
	return order[0], order[1]
}

// first reports whether a line is followed for the first time.
func (f *file) first(line ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.Join(line, " ")
	was := f.done[key]
	f.done[key] = true
	return !was
}

// parse returns the actions and arguments by point.
func parse(text string) map[string][2]string {
	by := map[string][2]string{}
	for line := range strings.Lines(text) {
		fields := append(strings.Fields(line), "", "", "")
		if _, has := by[fields[0]]; !has && fields[0] != "" {
			by[fields[0]] = [2]string{fields[1], fields[2]}
		}
	}
	return by
}
