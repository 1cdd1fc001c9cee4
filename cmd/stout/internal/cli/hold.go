package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/internal/async"
	"github.com/stoutlock/stout/lockapi"
)

// lock takes the lock and holds it for a command, or until a signal.
//
// Signals are collected from here on, so that none gets lost between waiting
// for the lock, running the command, and giving the lock back.
func (a *app) lock(ctx context.Context, f lockFlags) error {
	signals, stop := child.Signals()
	defer stop()
	t, err := await(ctx, signals, func(ctx context.Context) (*tenure, error) { return a.acquire(ctx, f) })
	if err != nil {
		if t != nil { // granted at the moment of the signal
			a.giveBack(t)
		}
		return err
	}
	return a.serve(ctx, t, signals)
}

// serve is the whole life of a hold. That the lock was lost counts for more
// than how the command ended: what it did, it may have done beside somebody
// else.
func (a *app) serve(ctx context.Context, t *tenure, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go t.lookout.run(ctx)
	spend := a.hold
	if len(t.flags.command) > 0 {
		spend = a.run
	}
	why, err := spend(t, signals)
	cancel() // what we release ourselves must not be reported as lost
	if gone := a.giveBack(t); why == nil {
		why = gone
	}
	if why != nil {
		return a.lost(t, why)
	}
	return err
}

// await runs f, and has it give up at the first signal that ends programs. It
// returns only when f has, with f's value in any case.
func await[T any](ctx context.Context, signals <-chan os.Signal, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := async.Go(func() (T, error) { return f(ctx) })
	for {
		select {
		case out := <-done:
			return out.Value, out.Err
		case sig := <-signals:
			if !child.Ends(sig) {
				continue
			}
			cancel()
			out := <-done
			return out.Value, &failure{
				code:        exitSignal + int(sig.(syscall.Signal)),
				interrupted: sig == syscall.SIGINT && child.Foreground(),
			}
		}
	}
}

// run runs the command under the lock. It returns why the lock was lost, if the
// command was asked to stop or killed for it; the error is how the command
// ended. The command's exit code is ours.
func (a *app) run(t *tenure, signals <-chan os.Signal) (lost, ended error) {
	result, err := child.Run(child.Command{
		Args: t.flags.command, Env: environment(t.Held, a.opts.servers),
		Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Margins: t.flags.margins, Revoked: t.lookout.gone,
		Signals: signals, Notice: a.notice(t),
	}, t)
	if start, ok := errors.AsType[*child.StartError](err); ok {
		return nil, &failure{code: start.Code(), message: start.Error()}
	}
	switch {
	case err != nil:
		return nil, err
	case result.Lost:
		return t.why(), nil
	case result.Code != exitOK:
		return nil, &failure{code: result.Code, interrupted: result.Interrupted}
	}
	return nil, nil
}

// hold prints the grant and keeps it until a signal ends us, which is the
// ordinary end, or until it is lost.
func (a *app) hold(t *tenure, signals <-chan os.Signal) (lost, ended error) {
	if err := a.showGrant(t.session.ID(), t.Held); err != nil {
		return nil, err
	}
	for {
		select {
		case sig := <-signals:
			if child.Ends(sig) {
				return nil, nil
			}
		case <-t.Done():
			return t.why(), nil
		case <-t.lookout.gone:
			return t.why(), nil
		}
	}
}

func (a *app) showGrant(session string, held *client.Held) error {
	at := held.GrantedAt()
	if a.ui.json {
		return a.ui.object(lockapi.Grant{
			Path: held.Path(), State: lockapi.StateHeld, Session: session, Handle: held.Handle(),
			Mode: held.Mode(), Token: held.Token(), Sequencer: held.Sequencer(), GrantedAt: &at,
		})
	}
	a.ui.pairs(
		[2]string{"holding", a.ui.out.good.Render(clean(held.Path()))},
		[2]string{"token", fmt.Sprint(held.Token())},
		[2]string{"sequencer", clean(held.Sequencer())},
		[2]string{"session", clean(session)},
	)
	a.ui.note("Ctrl-C releases it")
	return nil
}
