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
// Signals are collected from here on, so that none gets lost between waiting
// for the lock, running the command, and giving the lock back.
func (a *app) lock(ctx context.Context, f lockFlags) error {
	signals, stop := child.Signals()
	defer stop()
	h, err := unlessSignalled(ctx, signals, nil, func(ctx context.Context) (*heldLock, error) { return a.acquire(ctx, f) })
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
	spend := a.hold
	if len(h.flags.command) > 0 {
		spend = a.run
	}
	why, err := spend(ctx, h, signals)
	cancel() // what we release ourselves must not be reported as lost
	if gone := a.giveBack(h); why == nil {
		why = gone
	}
	if why != nil {
		return h.lost(why)
	}
	return err
}

// unlessSignalled runs f, and has it give up at the first signal that ends
// programs. It returns only when f has, with f's value in any case. Other
// signals go to rest, where there is one with room for them.
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
// command was asked to stop or killed for it; the error is how the command
// ended. The command's exit code is ours.
func (a *app) run(ctx context.Context, h *heldLock, signals <-chan os.Signal) (lost, ended error) {
	result, err := a.runCommand(child.Command{
		Args: h.flags.command, Env: a.environment(h.Held),
		Margins: h.flags.margins, Revoked: h.taken(ctx), Signals: signals,
	}, h, h.says)
	if result.Lost {
		return h.why(), nil
	}
	return nil, err
}

// runCommand runs a command that has our streams, and for standard input its own
// where it is given one. says puts what happens to it into words. The error is
// that it did not start, or has an exit code other than 0.
func (a *app) runCommand(c child.Command, lease child.Lease, says func(child.Event) string) (child.Result, error) {
	c.Stdin, c.Stdout, c.Stderr = cmp.Or(c.Stdin, a.stdin), a.stdout, a.stderr
	c.Notice = func(e child.Event) {
		a.ui.note("%s", says(e))
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

// happened is what happens to a command and why, or, where it is stopped from
// the keyboard, what is at stake.
func happened(e child.Event, name, why, stake string) string {
	switch e {
	case child.Told:
		return fmt.Sprintf("%s; told %s to stop (%s)", why, clean(name), child.TellWord)
	case child.Killed:
		return fmt.Sprintf("%s; killed %s (%s)", why, clean(name), child.KillWord)
	}
	return "stopped; unless continued, " + stake
}

// hold prints the grant and keeps it until a signal ends us, which is the
// ordinary end, or until it is lost.
func (a *app) hold(ctx context.Context, h *heldLock, signals <-chan os.Signal) (lost, ended error) {
	early, err := untilSignal(ctx, signals, func() error { return a.showGrant(h.session.ID(), h.Held) }, h.Held.Done(), nil)
	if early {
		return h.why(), nil
	}
	return nil, err
}

// untilSignal returns at the first signal that ends programs, or when ctx ends.
// It reports whether one of the channels was closed before. show is called
// beside that: standard output may block.
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
