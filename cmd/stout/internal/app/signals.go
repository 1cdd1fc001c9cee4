package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/wait"
)

// CancelOnSignal runs f and cancels it at the first signal that ends programs.
// It returns after f, always with f's value. Other signals go to rest, if it
// has room.
func CancelOnSignal[T any](ctx context.Context, signals <-chan os.Signal, rest chan<- os.Signal, f func(context.Context) (T, error)) (T, error) {
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
			return out.Value, &exit.Failure{
				Code:        exit.Signal + int(sig.(syscall.Signal)),
				Interrupted: sig == syscall.SIGINT && child.Foreground(),
			}
		}
	}
}

// RunCommand runs a command with stout's streams, or with its own standard
// input if it has one. describe turns events into messages. An error means that
// the command did not start or has an exit code other than 0.
func (a *App) RunCommand(c child.Command, describe func(child.Event) string) (child.Result, error) {
	c.Stdin, c.Stdout, c.Stderr = cmp.Or(c.Stdin, a.Stdin), a.Stdout, a.Stderr
	c.Notice = func(e child.Event) {
		a.UI.Note("%s", describe(e))
		if e == child.Stopped {
			ui.Settle(a.Notices) // this process stops next
		}
	}
	result, err := child.Run(c)
	if err == nil && result.Code != exit.OK {
		err = &exit.Failure{Code: result.Code, Interrupted: result.Interrupted}
	}
	return result, err
}

// Happened describes an event of a command with its reason or, if it was
// stopped from the keyboard, with what is at stake.
func Happened(e child.Event, name, why, stake string) string {
	switch e {
	case child.Asked:
		return fmt.Sprintf("%s; asked %s to stop (%s)", why, format.Clean(name), child.TermWord)
	case child.Killed:
		return fmt.Sprintf("%s; killed %s (%s)", why, format.Clean(name), child.KillWord)
	case child.Refused:
		return fmt.Sprintf("%s; may not kill %s, which runs as another user and continues", why, format.Clean(name))
	}
	return "stopped; unless it continues, " + stake
}

// UntilSignal returns at the first signal that ends programs, or when ctx ends.
// It reports whether over was closed before. show runs concurrently,
// because standard output may block.
func UntilSignal(ctx context.Context, signals <-chan os.Signal, show func() error, over <-chan struct{}) (early bool, err error) {
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
		}
	}
}

// LastSteps is how long a command may run after its session is over. Its file
// is gone, so no other session waits for it.
const LastSteps = 10 * time.Second
