package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

// lock takes the lock and holds it for a command, or until a signal.
//
// Signals are collected from the start, so that none is lost between waiting
// for the lock, running the command, and releasing the lock.
func (a *app) lock(ctx context.Context, f lockFlags) error {
	signals, stop := child.Signals()
	defer stop()
	h, err := unlessSignalled(ctx, signals, nil, func(ctx context.Context) (*heldLock, error) { return a.acquire(ctx, f) })
	if err != nil {
		if h != nil { // granted just as the signal came
			a.giveBack(h)
		}
		return err
	}
	return a.serve(ctx, h, signals)
}

// serve holds the lock to its end. A lost lock outranks the command's own
// result: the command may have run beside another holder.
func (a *app) serve(ctx context.Context, h *heldLock, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	spend := a.hold
	if len(h.flags.command) > 0 {
		spend = a.run
	}
	why, err := spend(ctx, h, signals)
	cancel() // our own release must not be reported as a loss
	if gone := a.giveBack(h); why == nil {
		why = gone
	}
	if why != nil {
		return h.lost(why)
	}
	return err
}

// unlessSignalled runs f and cancels it at the first signal that ends programs.
// It returns after f, always with f's value. Other signals go to rest, if it
// has room.
func unlessSignalled[T any](ctx context.Context, signals <-chan os.Signal, rest chan<- os.Signal, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := wait.Go(func() (T, error) { return f(ctx) })
	for {
		select {
		case out := <-done:
			return out.Value, out.Err
		case sig := <-signals:
			if !child.Ends(sig) {
				select {
				case rest <- sig:
				default:
				}
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
// command was stopped or killed for that; the error is how the command ended.
// stout exits with the command's exit code.
func (a *app) run(ctx context.Context, h *heldLock, signals <-chan os.Signal) (lost, ended error) {
	result, err := a.runCommand(child.Command{
		Args: h.flags.command, Env: a.environment(h.Held),
		Margins: h.flags.margins, Revoked: h.taken(ctx), Signals: signals,
	}, h, h.describe)
	if result.Lost {
		return h.why(), nil
	}
	return nil, err
}

// runCommand runs a command with stout's streams, or with its own standard
// input if it has one. describe turns events into messages. An error means that
// the command did not start or has an exit code other than 0.
func (a *app) runCommand(c child.Command, lease child.Lease, describe func(child.Event) string) (child.Result, error) {
	c.Stdin, c.Stdout, c.Stderr = cmp.Or(c.Stdin, a.stdin), a.stdout, a.stderr
	c.Notice = func(e child.Event) {
		a.ui.note("%s", describe(e))
		if e == child.Stopped {
			settle(a.notices) // this process stops next
		}
	}
	result, err := child.Run(c, lease)
	if start, ok := errors.AsType[*child.StartError](err); ok {
		return result, &failure{code: start.Code(), message: start.Error()}
	}
	if err == nil && result.Code != exitOK {
		err = &failure{code: result.Code, interrupted: result.Interrupted}
	}
	return result, err
}

// happened describes an event of a command with its reason or, if it was
// stopped from the keyboard, with what is at stake.
func happened(e child.Event, name, why, stake string) string {
	switch e {
	case child.Asked:
		return fmt.Sprintf("%s; asked %s to stop (%s)", why, clean(name), child.TermWord)
	case child.Killed:
		return fmt.Sprintf("%s; killed %s (%s)", why, clean(name), child.KillWord)
	}
	return "stopped; unless it continues, " + stake
}

// hold prints the grant and keeps the lock until a signal, the ordinary end, or
// until the lock is lost.
func (a *app) hold(ctx context.Context, h *heldLock, signals <-chan os.Signal) (lost, ended error) {
	early, err := untilSignal(ctx, signals, func() error { return a.showGrant(h.session.ID(), h.Held) }, h.Held.Done(), nil)
	if early {
		return h.why(), nil
	}
	return nil, err
}

// untilSignal returns at the first signal that ends programs, or when ctx ends.
// It reports whether over or gone was closed before. show runs concurrently,
// because standard output may block.
func untilSignal(ctx context.Context, signals <-chan os.Signal, show func() error, over, gone <-chan struct{}) (early bool, err error) {
	shown := wait.Err(show)
	for {
		select {
		case err := <-shown:
			if err != nil {
				return false, err
			}
			shown = nil
		case sig := <-signals:
			if child.Ends(sig) {
				return false, nil
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-over:
			return true, nil
		case <-gone:
			return true, nil
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
