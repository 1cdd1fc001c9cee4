//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// notifySocket makes a socket that a supervisor would read, and names it in the
// environment.
func notifySocket(t *testing.T) *net.UnixConn {
	name := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Skipf("no socket can be made (its name may be too long: %q): %v", name, err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return socket
}

// TestSupervisorThatDoesNotRead: with a full socket the process continues and
// stops. It reports later that it is ready.
func TestSupervisorThatDoesNotRead(t *testing.T) {
	socket := notifySocket(t)
	s := newSupervisor(zerolog.New(io.Discard))
	s.every = time.Millisecond
	full := func() {
		for s.notify("STATUS=full") == nil {
		}
	}
	full()
	s.ready(func(context.Context) (string, error) { return "serving", nil })
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	go func() { defer close(begun); s.begin(ctx) }()
	for buf := make([]byte, 4096); ; {
		n, err := socket.Read(buf)
		if err != nil {
			t.Fatalf("never ready: %v", err)
		}
		if string(buf[:n]) == "READY=1" {
			break
		}
	}
	cancel()
	<-begun
	full()
	s.stopping()
}

// TestHangupAtAnyTime: SIGHUP does not end a process that does not serve yet, and
// has its effect later.
func TestHangupAtAnyTime(t *testing.T) {
	hangup := hangups(true)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{})
	defer reopenOnHangup(hangup, func() { close(opened) })()
	<-opened
}

// TestSupervised: a process that starts, serves and stops reports to the socket of
// its supervisor.
func TestSupervised(t *testing.T) {
	socket := notifySocket(t)
	t.Setenv("WATCHDOG_USEC", fmt.Sprint(time.Minute.Microseconds()/60))
	t.Setenv("WATCHDOG_PID", "")

	api := "127.0.0.1:" + freePort(t)
	log, stop := serving(t, devFlags(api)...)
	next := func(prefix string) {
		t.Helper()
		var others []string
		for buf := make([]byte, 4096); ; {
			n, err := socket.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v; received %q", prefix, err, others)
			}
			got := string(buf[:n])
			if strings.HasPrefix(got, prefix) {
				return
			}
			others = append(others, got)
		}
	}
	next("READY=1")
	resp, err := http.Get("http://" + api + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	next("WATCHDOG=1")
	next("STATUS=serving; master")
	// Without an audit log a reload has no effect.
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(log.String(), "SIGHUP ignored") {
		next("WATCHDOG=1")
	}
	code := stop()
	next("STOPPING=1")
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
