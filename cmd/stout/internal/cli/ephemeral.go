package cli

import (
	"context"
	"errors"
	"math"
	"os"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/internal/async"
	"github.com/stoutlock/stout/lockapi"
)

// lastSteps is how long a command whose session is over has to end by itself.
// Nobody waits for it: its file is gone, and guards nothing.
const lastSteps = 10 * time.Second

// ephemeral is a file that ends with the session that wrote it.
type ephemeral struct {
	session *client.Session
	stat    lockapi.FileStat
}

// putEphemeral writes a file and keeps its session while a command runs, or
// until a signal.
//
// Signals are collected from here on, so that none gets lost between writing
// the file and ending its session.
func (a *app) putEphemeral(ctx context.Context, f *putFlags, content []byte) error {
	signals, stop := child.Signals()
	defer stop()
	e, err := unlessSignalled(ctx, signals, func(ctx context.Context) (*ephemeral, error) { return a.writeEphemeral(ctx, f, content) })
	if e != nil {
		defer a.endFile(e.session)
	}
	if err != nil {
		return err
	}
	if len(f.command) == 0 || a.ui.json {
		if err := a.showStat(e.stat); err != nil {
			return err
		}
	}
	if len(f.command) == 0 {
		a.ui.note("Ctrl-C deletes it")
		return awaitEnd(e.session, signals)
	}
	return a.runBeside(e.session, f, signals)
}

// writeEphemeral opens a session and writes the file. What it returns beside an
// error is to be ended.
func (a *app) writeEphemeral(ctx context.Context, f *putFlags, content []byte) (*ephemeral, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	session, err := a.client.NewSession(ctx, client.WithTTL(f.ttl), client.WithName(f.name))
	if err != nil {
		return nil, err
	}
	stat, err := session.Put(ctx, f.path, content, append(f.conditions, client.Ephemeral())...)
	if err != nil {
		err = aboutFile(f.path, err)
	}
	return &ephemeral{session, stat}, err
}

// awaitEnd waits for a signal, which is the ordinary end, or for the session's.
func awaitEnd(session *client.Session, signals <-chan os.Signal) error {
	for {
		select {
		case sig := <-signals:
			if child.Ends(sig) {
				return nil
			}
		case <-session.Done():
			return sessionOver()
		}
	}
}

func sessionOver() *failure {
	return &failure{code: exitLost, message: "the session was ended (closed or expired), and the file with it"}
}

// unbounded is the lease of a command that ends with nothing but its session.
// The channel is never closed.
type unbounded chan struct{}

func (unbounded) Remaining() time.Duration { return math.MaxInt64 }
func (u unbounded) Done() <-chan struct{}  { return u }

// runBeside runs the command until it has ended. Its exit code is ours.
func (a *app) runBeside(session *client.Session, f *putFlags, signals <-chan os.Signal) error {
	name := clean(f.command[0])
	result, err := child.Run(child.Command{
		Args: f.command, Env: append(a.cellEnvironment(), "STOUT_PATH="+f.path),
		Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Margins: child.Margins{Term: lastSteps, Kill: lastSteps}, Revoked: session.Done(), Signals: signals,
		Notice: func(e child.Event) {
			switch e {
			case child.Told:
				a.ui.note("the session is over; told %s to stop (%s)", name, child.TellWord)
			case child.Killed:
				a.ui.note("the session is over; killed %s (%s)", name, child.KillWord)
			case child.Stopped:
				a.ui.note("stopped; unless continued, %s is gone in %s", clean(f.path), human(f.ttl))
			}
		},
	}, make(unbounded))
	if start, ok := errors.AsType[*child.StartError](err); ok {
		return &failure{code: start.Code(), message: start.Error()}
	}
	switch {
	case err != nil:
		return err
	case result.Lost || session.Err() != nil:
		return sessionOver()
	case result.Code != exitOK:
		return &failure{code: result.Code, interrupted: result.Interrupted}
	}
	return nil
}

// endFile ends the session, and the file with it.
func (a *app) endFile(session *client.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience(session))
	defer cancel()
	err := async.Do(ctx, func() error { return session.Close(context.Background()) })
	if err != nil && !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrSessionNotFound) {
		a.ui.note("could not tell the cell that we are done; the file is gone in at most %s%s", human(session.TTL()), onceInOffice)
	}
}
