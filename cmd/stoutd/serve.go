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

// lastStep is the time for the end of a stop, beyond ShutdownTimeout. lastLines is
// the time for writing the last log lines.
const lastStep, lastLines = 2 * time.Second, time.Second

// serve runs one replica until ctx ends (nil) or a fault ends it. Messages for a
// person at a terminal go to c.Stdout.
func serve(ctx context.Context, c *config.Config) error {
	// A write to a pipe without a reader then fails, and does not end the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	reportFileSizeLimit()
	setLogForm()
	log, lines := setup.Logger(c)
	if c.Dev {
		dir, err := os.MkdirTemp("", "stoutd-dev-")
		if err != nil {
			return exitError{code: exitStart, err: fmt.Errorf("--dev needs a temporary directory (TMPDIR sets its place): %w", err)}
		}
		c.DataDir = dir
		defer func() {
			if err := os.RemoveAll(dir); err != nil {
				log.Warn().Err(err).Msg("could not remove the temporary directory")
			}
		}()
	}
	go paceCollector(ctx)
	hangup := hangups(c.AuditLog != "" || hasSupervisor())
	within := c.ShutdownTimeout + lastStep
	defer endAnyway(ctx, within, func() {
		fmt.Fprintf(lines, "stoutd: the stop has not ended within %v; ending now\n", within)
		lines.Flush(lastLines)
		os.Exit(exitFault)
	})()
	supervisor := newSupervisor(log)
	go supervisor.begin(ctx)
	for {
		if err := serveMember(ctx, c, supervisor, hangup, log); !errors.Is(err, replica.ErrReplaced) {
			return err
		}
		// Another directory has its place in the cell: wait to become a member again.
	}
}

// setLogForm sets zerolog's global options. Operators compare lines of several
// replicas, so times have fractions and are in UTC.
var setLogForm = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
	zerolog.DurationFieldUnit = time.Millisecond
	zerolog.DurationFieldInteger = true
	zerolog.ErrorHandler = func(error) {} // the default writes to standard error, and may block
})

// endAnyway calls end when a time has passed since the end of ctx, unless stop was
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
func serveMember(ctx context.Context, c *config.Config, supervisor *supervisor, hangup <-chan os.Signal, log zerolog.Logger) error {
	r, err := embed.Start(ctx, c)
	if err != nil {
		code := exitStart
		if errors.As(err, &config.Problems{}) {
			code = exitConfig
		}
		return exitError{code: code, err: err}
	}
	defer reopenOnHangup(hangup, func() {
		if c.AuditLog == "" {
			log.Info().Msg("SIGHUP ignored: there is no audit log to open again")
		}
		r.ReopenAudit()
	})()
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
		log.Warn().Err(err).Msg("this replica was removed from the cell; ending")
		err = nil
	case errors.Is(err, replica.ErrReplaced):
		log.Warn().Err(err).Msg("another directory has this replica's place; waiting to become a member again")
		supervisor.waiting(err.Error())
	case err != nil:
		// End without the steps of an orderly stop, because they write.
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

// welcome shows first commands to the user of --dev, when the cell serves. They name
// the address, because other cells may run on the machine.
const welcome = `A cell of one replica serves at %[1]s. Its data is lost when it ends. Try:

  curl -s %[1]s/v1/cell
  stout --server %[1]s lock /jobs/demo -- sh -c 'echo "I alone run, with token $STOUT_TOKEN"'

or watch it in a browser: %[1]s/ui/

`

// introduce shows the welcome when the cell has a master, unless ctx ends before.
func introduce(ctx context.Context, r *embed.Replica, w io.Writer) {
	if url, err := r.Master(ctx); err == nil {
		fmt.Fprintf(w, welcome, url)
	}
}

// hangups collects SIGHUP, if used, as long as the process lives: at any moment
// its default action would end the process, which a supervisor takes for an
// orderly end. logrotate sends it, and so does `systemctl reload`.
func hangups(used bool) <-chan os.Signal {
	hangup := make(chan os.Signal, 1)
	if used {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	return hangup
}

// reopenOnHangup calls reopen at each SIGHUP until stop is called, also for one
// that came before.
func reopenOnHangup(hangup <-chan os.Signal, reopen func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			select {
			case <-hangup:
				reopen()
			case <-ctx.Done():
				return
			}
		}
	}()
	return cancel
}
