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
	h, err := unlessSignalled(ctx, signals, func(ctx context.Context) (*heldLock, error) { return a.acquire(ctx, f) })
	if err != nil {
		if h != nil { // granted at the moment of the signal
			a.giveBack(h)
		}
		return err
	}
	return a.serve(ctx, h, signals)
}

// serve is the whole life of a hold. That the lock was lost counts for more
// than how the command ended: what it did, it may have done beside somebody
// else.
func (a *app) serve(ctx context.Context, h *heldLock, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go h.watch.run(ctx)
	spend := a.hold
	if len(h.flags.command) > 0 {
		spend = a.run
	}
	why, err := spend(h, signals)
	cancel() // what we release ourselves must not be reported as lost
	if gone := a.giveBack(h); why == nil {
		why = gone
	}
	if why != nil {
		return a.lost(h, why)
	}
	return err
}

// unlessSignalled runs f, and has it give up at the first signal that ends
// programs. It returns only when f has, with f's value in any case.
func unlessSignalled[T any](ctx context.Context, signals <-chan os.Signal, f func(context.Context) (T, error)) (T, error) {
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
func (a *app) run(h *heldLock, signals <-chan os.Signal) (lost, ended error) {
	result, err := child.Run(child.Command{
		Args: h.flags.command, Env: a.environment(h.Held),
		Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Margins: h.flags.margins, Revoked: h.watch.gone,
		Signals: signals, Notice: a.notice(h),
	}, h)
	if start, ok := errors.AsType[*child.StartError](err); ok {
		return nil, &failure{code: start.Code(), message: start.Error()}
	}
	switch {
	case err != nil:
		return nil, err
	case result.Lost:
		return h.why(), nil
	case result.Code != exitOK:
		return nil, &failure{code: result.Code, interrupted: result.Interrupted}
	}
	return nil, nil
}

// hold prints the grant and keeps it until a signal ends us, which is the
// ordinary end, or until it is lost.
func (a *app) hold(h *heldLock, signals <-chan os.Signal) (lost, ended error) {
	if err := a.showGrant(h.session.ID(), h.Held); err != nil {
		return nil, err
	}
	for {
		select {
		case sig := <-signals:
			if child.Ends(sig) {
				return nil, nil
			}
		case <-h.Done():
			return h.why(), nil
		case <-h.watch.gone:
			return h.why(), nil
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
