package main

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/internal/wait"
)

// supervisor reports the state of the process to systemd, or to another program that
// reads sd_notify(3). Without one (NOTIFY_SOCKET is not set) it sends nothing.
type supervisor struct {
	log    zerolog.Logger
	notify func(state string) error // sends a message; tests replace it
	every  time.Duration            // interval of checks; 0 without a supervisor
	bound  time.Duration            // time limit of a check; 0 without a watchdog

	look    atomic.Pointer[look]
	unready atomic.Bool // the process is ready, and could not report it yet
	ends    atomic.Bool // stopping was called: it must not be ready after that
}

// look returns a line for people about what the process does. It fails or hangs if
// the process cannot continue.
type look func(context.Context) (string, error)

// statusEvery is the interval of reports to the supervisor, unless its watchdog needs
// them more often.
const statusEvery = 5 * time.Second

// notifyTime is how long a message may take. A supervisor that does not read
// must not keep the replica from its work, least of all from a stop.
const notifyTime = 500 * time.Millisecond

func hasSupervisor() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// newSupervisor reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. It sends four
// reports within a watchdog's time limit, so that a late report does no harm.
func newSupervisor(log zerolog.Logger) *supervisor {
	s := &supervisor{log: log}
	s.notify = func(string) error { return nil }
	if !hasSupervisor() {
		return s
	}
	s.notify = sendTo(os.Getenv("NOTIFY_SOCKET"))
	s.every = statusEvery
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn().Err(err).Msg("no watchdog: cannot read WATCHDOG_USEC and WATCHDOG_PID")
	}
	if watchdog > 0 {
		s.every, s.bound = min(watchdog/4, statusEvery), watchdog/2
	}
	return s
}

// sendTo returns a function that sends to a socket, within notifyTime.
// daemon.SdNotify has no time limit.
func sendTo(socket string) func(state string) error {
	return func(state string) error {
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			return err
		}
		defer conn.Close()
		err = conn.SetWriteDeadline(time.Now().Add(notifyTime))
		if err == nil {
			_, err = conn.Write([]byte(state))
		}
		return err
	}
}

func (s *supervisor) tell(state string) (sent bool) {
	err := s.notify(state)
	if err != nil {
		s.log.Warn().Err(err).Str("state", state).Msg("cannot send a message to the supervisor")
	}
	return err == nil
}

// begin reports to the supervisor at intervals until ctx ends. It resets the
// watchdog's timer as long as the checks succeed.
func (s *supervisor) begin(ctx context.Context) {
	if s.every == 0 {
		return
	}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	sent := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		status, err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			// The last line of a process that the watchdog ends.
			s.log.Error().Err(err).Dur("waited_ms", s.bound).Msg("the watchdog is not fed")
			continue
		}
		if s.unready.Load() && !s.ends.Load() {
			s.unready.Store(!s.tell(daemon.SdNotifyReady))
		}
		if status != sent && s.tell("STATUS="+status) {
			sent = status
		}
		if s.bound > 0 {
			s.tell(daemon.SdNotifyWatchdog)
		}
	}
}

// once makes one check. It abandons a check that exceeds the time limit.
func (s *supervisor) once(ctx context.Context) (string, error) {
	look := s.look.Load()
	if look == nil {
		return "starting", nil
	}
	if s.bound > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, s.bound, errHangs)
		defer cancel()
		ctx = bounded
	}
	status, err := wait.Get(ctx, func() (string, error) { return (*look)(ctx) })
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return safetext.Line(status), err
}

var errHangs = errors.New("the replica does not answer; does the disk of its data directory respond?")

// waiting reports why the process waits to become a member of the cell again.
func (s *supervisor) waiting(why string) {
	s.see(func(context.Context) (string, error) { return "waiting: " + why, nil })
}

// ready reports that the process serves, and sets the check to use from now on. A
// report that fails is repeated by begin: the supervisor waits for it.
func (s *supervisor) ready(l look) {
	s.see(l)
	if !s.tell(daemon.SdNotifyReady) {
		s.unready.Store(true)
	}
}

func (s *supervisor) stopping() {
	s.ends.Store(true)
	s.tell(daemon.SdNotifyStopping)
}

func (s *supervisor) see(l look) { s.look.Store(&l) }
