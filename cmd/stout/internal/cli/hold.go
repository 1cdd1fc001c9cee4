package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/lockapi"
)

// How long an ended command waits to give its lock back, and how long if the
// cell could not be reached before either. Past that, the lock is free when the
// ttl is over.
const (
	closeTimeout     = 5 * time.Second
	closeLostTimeout = time.Second
)

// lock takes the lock and holds it for a command, or until a signal.
//
// Signals are collected from here on, so that none gets lost between waiting
// for the lock, running the command, and giving the lock back.
func (a *app) lock(ctx context.Context, f lockFlags) error {
	signals, stop := child.Signals()
	defer stop()
	session, err := await(ctx, signals, func(ctx context.Context) (*client.Session, error) {
		ctx, cancel := a.call(ctx)
		defer cancel()
		return a.client.NewSession(ctx, client.WithTTL(f.ttl), client.WithName(f.name), client.WithMeta(sessionMeta(f)))
	})
	if err != nil {
		return a.notGot(f, err)
	}
	defer a.closeSession(session)
	held, err := await(ctx, signals, func(ctx context.Context) (*client.Held, error) { return a.acquire(ctx, session, f) })
	if err != nil {
		return a.notGot(f, err)
	}
	if len(f.command) == 0 {
		return a.hold(session.ID(), held, f, signals)
	}
	return a.run(held, f, signals)
}

// sessionMeta tells operators which process this is.
func sessionMeta(f lockFlags) map[string]string {
	meta := map[string]string{"pid": strconv.Itoa(os.Getpid())}
	if len(f.command) > 0 {
		meta["command"] = f.command[0]
	}
	return meta
}

// await runs f, and has it give up at the first signal that ends programs. It
// returns only when f has.
func await[T any](ctx context.Context, signals <-chan os.Signal, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := f(ctx)
		done <- outcome{value, err}
	}()
	for {
		select {
		case out := <-done:
			return out.value, out.err
		case sig := <-signals:
			if !child.Ends(sig) {
				continue
			}
			cancel()
			<-done
			var none T
			return none, &failure{
				code:        exitSignal + int(sig.(syscall.Signal)),
				interrupted: sig == syscall.SIGINT && child.Foreground(),
			}
		}
	}
}

// acquire tries first, to be able to say for whom it waits, then waits.
func (a *app) acquire(ctx context.Context, session *client.Session, f lockFlags) (*client.Held, error) {
	opts := f.options()
	held, err := func() (*client.Held, error) {
		ctx, cancel := a.call(ctx)
		defer cancel()
		return session.TryLock(ctx, f.path, opts...)
	}()
	busy := errors.Is(err, client.ErrLockHeld) || errors.Is(err, client.ErrLockDelayed)
	if !busy || (f.waits && f.wait == 0) {
		return held, err
	}
	a.ui.note("waiting: %s", inTheWay(f.path, err))
	if f.waits {
		opts = append(opts, client.Wait(f.wait))
	}
	return session.Lock(ctx, f.path, opts...)
}

// inTheWay says who or what keeps us from a lock.
func inTheWay(path string, err error) string {
	api, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case ok && api.Code == lockapi.CodeLockDelayed:
		return fmt.Sprintf("%s is free, but in its lock-delay for %s more", clean(path), millis(api.DelayRemainingMS))
	case ok && len(api.Holders) == 1:
		h := api.Holders[0]
		return fmt.Sprintf("%s is held by %s, token %d, for %s", clean(path), clean(h.SessionName), h.Token, since(h.GrantedAt))
	case ok && len(api.Holders) > 1:
		return fmt.Sprintf("%s is held by %d", clean(path), len(api.Holders))
	default:
		return fmt.Sprintf("%s is taken", clean(path))
	}
}

// notGot maps the reasons for not having the lock to exit codes: the conflict
// code for all that may be otherwise later.
func (a *app) notGot(f lockFlags, err error) error {
	var out *failure
	switch {
	case errors.Is(err, client.ErrLockHeld), errors.Is(err, client.ErrLockDelayed):
		out = &failure{code: f.conflictCode, message: "not got: " + inTheWay(f.path, err)}
		if f.waits {
			return out.hint("a longer --wait waits for it; stout locks %s shows who holds it", clean(f.path))
		}
		return out
	case errors.Is(err, client.ErrSessionExpired), errors.Is(err, client.ErrSessionNotFound), errors.Is(err, client.ErrJeopardy):
		return &failure{code: f.conflictCode, message: "not got: our session ended while waiting: " + err.Error()}
	}
	out = a.explain(err)
	switch {
	case out.code == exitNoMaster, out.code == exitUnreachable,
		errors.Is(err, client.ErrTooMany), errors.Is(err, client.ErrOutcomeUnknown):
		out.code = f.conflictCode
	}
	return out
}

// run runs the command under the lock. The command's exit code is ours.
func (a *app) run(held *client.Held, f lockFlags, signals <-chan os.Signal) error {
	result, err := child.Run(child.Command{
		Args: f.command, Env: environment(held, a.opts.servers),
		Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Margins: f.margins, Signals: signals, Notice: a.notice(f),
	}, held)
	if start, ok := errors.AsType[*child.StartError](err); ok {
		return &failure{code: start.Code(), message: start.Error()}
	}
	if err != nil {
		return err
	}
	if result.Lost {
		return a.lost(held, f)
	}
	if result.Code != exitOK {
		return &failure{code: result.Code, interrupted: result.Interrupted}
	}
	return nil
}

// notice tells what happens to the running command.
func (a *app) notice(f lockFlags) func(child.Event) {
	name := clean(f.command[0])
	return func(e child.Event) {
		switch e {
		case child.Told:
			a.ui.note("the lease on %s was not renewed; told %s to stop (SIGTERM)", clean(f.path), name)
		case child.Killed:
			a.ui.note("the lease on %s is over or about to end; killed %s (SIGKILL)", clean(f.path), name)
		case child.Stopped:
			a.ui.note("stopped; unless continued, %s is lost in %s", clean(f.path), human(f.ttl))
		}
	}
}

// lost is the end of a hold that was cut short.
func (a *app) lost(held *client.Held, f lockFlags) error {
	why := "its lease was not renewed in time"
	if err := held.Err(); err != nil {
		why = strings.TrimPrefix(err.Error(), "stout: ")
	}
	out := &failure{code: f.lostCode, message: fmt.Sprintf("lost %s: %s", clean(f.path), why)}
	return out.hint("stout status shows whether the cell is well; what was done under token %d may be half done", held.Token())
}

// hold prints the grant and keeps it until a signal ends us, which is the
// ordinary end, or until it is lost.
func (a *app) hold(session string, held *client.Held, f lockFlags, signals <-chan os.Signal) error {
	if err := a.showGrant(session, held); err != nil {
		return err
	}
	for {
		select {
		case sig := <-signals:
			if child.Ends(sig) {
				return nil
			}
		case <-held.Done():
			return a.lost(held, f)
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

// closeSession gives back all that the session holds, within a bound of our own:
// the client would try for longer.
func (a *app) closeSession(session *client.Session) {
	patience := closeTimeout
	if session.Remaining() < session.TTL()/5 { // long past the last keepalive that came through
		patience = closeLostTimeout
	}
	done := make(chan error, 1)
	go func() { done <- session.Close(context.Background()) }()
	select {
	case err := <-done:
		if err == nil || errors.Is(err, client.ErrSessionExpired) || errors.Is(err, client.ErrSessionNotFound) {
			return
		}
	case <-time.After(patience):
	}
	a.ui.note("could not tell the cell that we are done; the lock is free in at most %s", human(session.TTL()))
}
