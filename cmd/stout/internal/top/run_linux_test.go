//go:build !race

// The terminal's library races with itself where it ends by a panic
// (cancelreader's Close beside its ReadLoop).

package top

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stoutlock/stout/client"
)

// terminal opens a pseudo-terminal: its far end, and the terminal itself.
func terminal(t *testing.T) (far, near *os.File) {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	fd := int(far.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if near, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	return far, near
}

// A panic, also of a goroutine of the driver's, leaves the terminal as it was.
func TestRunPanics(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	far, near := terminal(t)
	before, err := unix.IoctlGetTermios(int(near.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		var all strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := far.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				shown <- all.String()
				return
			}
		}
	}()
	src := &source{look: func() (Look, error) { panic("a fault of the driver") }}
	err = Run(t.Context(), Options{In: near, Out: near, Source: src, Client: c})
	after, failed := unix.IoctlGetTermios(int(near.Fd()), unix.TCGETS)
	near.Close()
	if failed != nil || *after != *before {
		t.Errorf("the terminal was left as %+v (%v); it was %+v", after, failed, before)
	}
	all := <-shown
	if taken, given := strings.Index(all, "\x1b[?1049h"), strings.LastIndex(all, "\x1b[?1049l"); taken >= 0 && given < taken {
		t.Errorf("the screen was not given back: %q", all)
	}
	if err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("error %v", err)
	}
}
