package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

// lastSteps is how long a command may run after its session is over. Its file
// is gone, so no other session waits for it.
const lastSteps = 10 * time.Second

// ephemeral is a file that ends with its session.
type ephemeral struct {
	session *client.Session
	stat    lockapi.FileStat
}

// putEphemeral writes a file and keeps its session while a command runs, or
// until a signal.
//
// Signals are collected from the start, so that none is lost between writing
// the file and ending its session.
func (c *putFile) putEphemeral(ctx context.Context, content []byte) error {
	signals, stop := child.Signals()
	defer stop()
	e, err := unlessSignalled(ctx, signals, nil, func(ctx context.Context) (*ephemeral, error) { return c.writeEphemeral(ctx, content) })
	if e != nil {
		defer c.endFile(e.session)
	}
	if err != nil {
		return err
	}
	if len(c.cmd) > 0 {
		return c.runBeside(ctx, e, signals)
	}
	early, err := untilSignal(ctx, signals, func() error {
		defer c.ui.note("Ctrl-C deletes it")
		return c.showStat(e.stat)
	}, e.session.Done(), nil)
	if early {
		return sessionOver()
	}
	return err
}

// writeEphemeral opens a session and writes the file. A result must be ended
// even if an error comes with it.
func (c *putFile) writeEphemeral(ctx context.Context, content []byte) (*ephemeral, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	session, err := c.client.NewSession(ctx, client.TTL(c.ttl), client.Name(c.name))
	if err != nil {
		return nil, err
	}
	stat, err := session.Put(ctx, c.path, content, append(c.conditions, client.Ephemeral())...)
	if err != nil {
		err = aboutFile(c.path, err)
	}
	return &ephemeral{session, stat}, err
}

func sessionOver() *failure {
	return &failure{code: exitLost, message: "the session has ended (closed or expired), and the file with it"}
}

// unbounded is the lease of a command that ends only with its session. The
// channel is never closed.
type unbounded chan struct{}

func (unbounded) Remaining() time.Duration { return math.MaxInt64 }
func (u unbounded) Done() <-chan struct{}  { return u }

// runBeside runs the command to its end. stout exits with its exit code.
func (c *putFile) runBeside(ctx context.Context, e *ephemeral, signals <-chan os.Signal) error {
	if c.ui.json { // before what the command writes
		_, err := unlessSignalled(ctx, signals, nil, func(ctx context.Context) (any, error) {
			return nil, wait.Do(ctx, func() error { return c.showStat(e.stat) })
		})
		if err != nil {
			return err
		}
	}
	result, err := c.runCommand(child.Command{
		Args: c.cmd, Env: append(c.cellEnvironment(), "STOUT_PATH="+c.path),
		Margins: child.Margins{Term: lastSteps, Kill: lastSteps}, Revoked: e.session.Done(), Signals: signals,
	}, make(unbounded), func(what child.Event) string {
		return happened(what, c.cmd[0], "the session has ended", fmt.Sprintf("%s is gone in %s", clean(c.path), human(c.ttl)))
	})
	if result.Lost || e.session.Err() != nil {
		return sessionOver()
	}
	return err
}

// endFile ends the session, and the file with it.
func (c *putFile) endFile(session *client.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience(session))
	defer cancel()
	err := wait.Do(ctx, func() error { return session.Close(context.Background()) })
	if err != nil && !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrSessionNotFound) {
		c.ui.note("the cell could not be reached to delete the file; it is gone in at most %s%s", human(session.TTL()), onceInOffice)
	}
}
