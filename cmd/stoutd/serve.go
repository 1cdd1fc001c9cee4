package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/embed"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/replica"
)

// lastStep is what the end of a stop gets beyond ShutdownTimeout, and lastLines what
// the last lines of the log get.
const lastStep, lastLines = 2 * time.Second, time.Second

// serve runs one replica until ctx ends (nil) or a fault ends it.
// What is meant for a person at a terminal goes to c.Stdout.
func serve(ctx context.Context, c *config.Config) error {
	// A write to a pipe without a reader then fails, and does not end the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	reportFileSizeLimit()
	setLogForm()
	log, lines := setup.Logger(c)
	if c.Dev {
		dir, err := os.MkdirTemp("", "stoutd-dev-")
		if err != nil {
			return exitError{code: exitStart, err: fmt.Errorf("--dev needs a temporary directory (TMPDIR says where): %w", err)}
		}
		c.DataDir = dir
		defer func() {
			if err := os.RemoveAll(dir); err != nil {
				log.Warn().Err(err).Msg("the temporary directory stays")
			}
		}()
	}
	go paceCollector(ctx)
	within := c.ShutdownTimeout + lastStep
	defer endAnyway(ctx, within, func() {
		fmt.Fprintf(lines, "stoutd: the stop has not ended within %v; ending now\n", within)
		lines.Flush(lastLines)
		os.Exit(exitFault)
	})()
	supervisor := newSupervisor(log)
	go supervisor.begin(ctx)
	for {
		if err := serveMember(ctx, c, supervisor, log); !errors.Is(err, replica.ErrReplaced) {
			return err
		}
		// Its directory is no member's any more: it goes back to waiting.
	}
}

// setLogForm sets what zerolog keeps for the whole process. Lines of several
// replicas are read side by side, so times have fractions and are in UTC.
var setLogForm = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
	zerolog.DurationFieldUnit = time.Millisecond
	zerolog.DurationFieldInteger = true
	zerolog.ErrorHandler = func(error) {} // by default it writes to standard error, and waits
})

// endAnyway calls end so long after ctx has ended, unless the returned function was
// called before: an orderly stop may hang in any state.
func endAnyway(ctx context.Context, within time.Duration, end func()) (stop func()) {
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		select {
		case <-time.After(within):
			end()
		case <-ended:
		}
	})
	return sync.OnceFunc(func() { close(ended) })
}

// serveMember runs a replica until it has stopped. The error is an exitError, or
// replica.ErrReplaced.
func serveMember(ctx context.Context, c *config.Config, supervisor *supervisor, log zerolog.Logger) error {
	r, err := embed.Start(ctx, c)
	if err != nil {
		code := exitStart
		if errors.As(err, &config.Problems{}) {
			code = exitConfig
		}
		return exitError{code: code, err: err}
	}
	defer reopenOnHangup(r, c.AuditLog != "", log)()
	supervisor.see(r.Status)
	select {
	case <-r.Ready():
		supervisor.ready(r.Status)
		if c.Dev {
			go introduce(ctx, r, c.Stdout)
		}
		select {
		case <-ctx.Done():
		case err = <-r.Failed():
		}
	case <-ctx.Done():
	case err = <-r.Failed():
		select {
		case <-r.Ready(): // it failed after it had started
		default:
			_ = r.Stop(context.Background())
			return exitError{code: exitStart, err: err}
		}
	}
	switch {
	case errors.Is(err, replica.ErrRemoved):
		log.Warn().Err(err).Msg("this replica was removed from the cell, and ends")
		err = nil
	case errors.Is(err, replica.ErrReplaced):
		log.Warn().Err(err).Msg("standing by from now on")
		supervisor.waiting(err.Error())
	case err != nil:
		// It ends without the steps of an orderly stop: those write.
		fault := log.Error().Err(err)
		if cure := setup.DiskCure(err); cure != "" {
			fault = fault.Str("cure", fmt.Sprintf("data-dir %q: %s", c.DataDir, cure))
		}
		fault.Msg("ending on a fault")
		return exitError{code: exitFault, err: err, logged: true}
	}
	if err == nil {
		supervisor.stopping()
	}
	if stuck := r.Stop(context.Background()); errors.Is(stuck, embed.ErrStuck) {
		return exitError{code: exitStart, err: stuck}
	}
	return err
}

// welcome is what a person who started a cell with --dev may try, shown when it
// serves. The address has all of them go to this very cell, whatever else
// runs.
const welcome = `A cell of one replica serves at %[1]s. Its data will be gone when it ends. Try:

  curl -s %[1]s/v1/cell
  stout --server %[1]s lock /jobs/demo -- sh -c 'echo "I alone run, with token $STOUT_TOKEN"'

or see it in a browser, live: %[1]s/ui/

`

// introduce shows the welcome as soon as a master is in office, unless ctx ends
// before.
func introduce(ctx context.Context, r *embed.Replica, w io.Writer) {
	if url, err := r.Master(ctx); err == nil {
		fmt.Fprintf(w, welcome, url)
	}
}

// reopenOnHangup opens the audit log's file again at each SIGHUP, as logrotate sends
// it, until the returned function is called. Without an audit log SIGHUP ends the
// process as it always does, but under a supervisor: there it comes from `systemctl
// reload`, and after an end in good order the supervisor starts no replica again.
func reopenOnHangup(r *embed.Replica, audits bool, log zerolog.Logger) (stop func()) {
	if !audits && !hasSupervisor() {
		return func() {}
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			select {
			case <-hangup:
				if !audits {
					log.Info().Msg("a SIGHUP opens the audit log again, and there is none: nothing was done")
				}
				r.ReopenAudit()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangup)
		cancel()
	}
}
