package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/internal/wait"
)

// supervisor is systemd, or whoever else is told by sd_notify(3) how the process
// fares. Without one (NOTIFY_SOCKET is not set) nothing is told.
type supervisor struct {
	log    zerolog.Logger
	notify func(state string) // sends it; tests have their own
	every  time.Duration      // between two looks; 0 where nobody listens
	bound  time.Duration      // on a look; 0 for no watchdog

	look atomic.Pointer[look]
}

// look tells in a line for people what the process does, and fails or hangs
// where it is no use any more.
type look func(context.Context) (string, error)

// statusEvery is how often the supervisor is told what the process does, where
// it has no watchdog that wants to be told more often.
const statusEvery = 5 * time.Second

func hasSupervisor() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// newSupervisor reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. A watchdog
// is told four times in its time that the process works, so that a late one does
// no harm.
func newSupervisor(log zerolog.Logger) *supervisor {
	s := &supervisor{log: log}
	s.notify = func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn().Err(err).Str("state", state).Msg("the supervisor cannot be told")
		}
	}
	if !hasSupervisor() {
		return s
	}
	s.every = statusEvery
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn().Err(err).Msg("no watchdog: what the environment says of it cannot be read")
	}
	if watchdog > 0 {
		s.every, s.bound = min(watchdog/4, statusEvery), watchdog/2
	}
	return s
}

// begin tells the supervisor again and again what the process does, until ctx
// ends. It feeds the watchdog as long as the looks succeed.
func (s *supervisor) begin(ctx context.Context) {
	if s.every == 0 {
		return
	}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	told := ""
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
			// The last that is read of a process that the watchdog ends.
			s.log.Error().Err(err).Dur("waited_ms", s.bound).Msg("the watchdog is not fed")
			continue
		}
		if status != told {
			s.notify("STATUS=" + status)
			told = status
		}
		if s.bound > 0 {
			s.notify(daemon.SdNotifyWatchdog)
		}
	}
}

// once has a look. One that does not come back in time is left behind.
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

var errHangs = errors.New("the replica does not answer; does the disk of its data directory?")

// waiting says why the process waits to be a member of the cell again.
func (s *supervisor) waiting(why string) {
	s.see(func(context.Context) (string, error) { return "waiting: " + why, nil })
}

// ready tells that the process serves, and how to look at it from now on.
func (s *supervisor) ready(l look) {
	s.see(l)
	s.notify(daemon.SdNotifyReady)
}

// stopping tells that it ends.
func (s *supervisor) stopping() { s.notify(daemon.SdNotifyStopping) }

func (s *supervisor) see(l look) { s.look.Store(&l) }
