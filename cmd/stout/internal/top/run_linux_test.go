//go:build !race

// The terminal's library races with itself where it ends by a panic
// (cancelreader's Close beside its ReadLoop).

package top

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/testrun"
)

// A panic, also of a goroutine of the driver's, leaves the terminal as it was.
func TestRunPanics(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	far, near := testrun.Terminal(t, 80)
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
