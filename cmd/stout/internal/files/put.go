package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

const putHelp = `Replaces the file at PATH by CONTENT, by the file that --file names, or by
standard input. A file has at most 256 KiB.

The write is sent once. If its outcome is unknown, because mastership changed at
that time, stout reports that and exits with 6. Writing again may overwrite the
change of another caller; --if-revision and --if-absent prevent that.

With --ephemeral, stout opens a session for the file. The file is deleted when
CMD ends, at Ctrl-C, or, if stout is killed, when the ttl is over. A file of
another session is taken over. CMD keeps running while the cell cannot be
reached. If the cell reports that the session is over, CMD gets a SIGTERM and,
10s later, a SIGKILL. CMD has STOUT_PATH and STOUT_SERVER in its environment.`

type putFile struct {
	*app.App
	path       string
	content    *string // given as an argument
	file       string
	cmd        []string
	revision   uint64
	absent     bool
	ephemeral  bool
	ttl        time.Duration
	name       string
	conditions []client.WriteOption
}

func (c *putFile) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "put PATH [CONTENT] [flags] [-- CMD [ARG]...]", Short: "Write a file", SuggestFor: "set write create",
		Long: putHelp, Complete: app.ThenFiles(c.CompleteFile()), CompleteAll: true, Unlimited: true,
		Exits: exit.ChangeExits("written", "the cell refused: --if-revision or --if-absent does not hold") +
			"; with CMD: its own, 128+n if signal n ended it, 126 or 127 if it cannot be run, and 76 if the session ended before CMD",
		Example: `  stout put /app/conf --file app.conf
  stout put /app/motd hello --if-absent
  stout put /servers/web1 10.0.0.7:80 --ephemeral -- ./web`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVarP(&c.file, "file", "f", "", "write the content of this `file`; - is standard input")
			f.Uint64Var(&c.revision, "if-revision", 0, "write only if the file is at this `revision`")
			f.BoolVar(&c.absent, "if-absent", false, "write only if the file does not exist")
			f.BoolVar(&c.ephemeral, "ephemeral", false, "keep the file only while CMD runs, or until Ctrl-C")
			app.AddTTL(f, &c.ttl, "`duration` after which an ephemeral file is deleted if stout vanishes")
			app.AddName(f, &c.name)
		},
	}
}

func (c *putFile) check(args []string) error {
	args, c.cmd = c.CutArgs(args)
	switch {
	case c.cmd != nil && len(c.cmd) == 0:
		return exit.Usagef("there is no command after --")
	case len(args) == 0:
		return exit.Usagef("PATH is missing: the file to write")
	case len(args) > 2:
		return exit.Usagef("unexpected argument %q", args[2]).
			Hint("write the command after --: stout put %s %q --ephemeral -- %s", args[0], args[1], strings.Join(args[2:], " "))
	case c.file == "" && c.Given("file"):
		return exit.Usagef("--file is empty; - is standard input")
	case len(args) == 2 && c.file != "":
		return exit.Usagef("%q and --file %s exclude each other: both give the content", args[1], c.file)
	case len(args) == 2:
		c.content = &args[1]
	}
	c.path = args[0]
	if err := app.ValidPath(c.path); err != nil {
		return err
	}
	for _, name := range []string{"ttl", "name"} {
		if !c.ephemeral && c.Given(name) {
			return exit.Usagef("--%s needs --ephemeral", name)
		}
	}
	if !c.ephemeral && c.cmd != nil {
		return exit.Usagef("a command needs --ephemeral")
	}
	if err := app.CheckSession(c.ttl, &c.name); err != nil {
		return err
	}
	if c.absent {
		c.conditions = append(c.conditions, client.IfAbsent())
	}
	if c.Given("if-revision") {
		c.conditions = append(c.conditions, client.IfRevision(c.revision))
	}
	if len(c.conditions) > 1 {
		return exit.Usagef("--if-absent and --if-revision exclude each other")
	}
	return nil
}

func (c *putFile) read() ([]byte, error) {
	if c.content != nil {
		return []byte(*c.content), nil
	}
	content, err := c.ReadInput(c.file, lockapi.MaxFileBytes)
	if err == nil && len(content) > lockapi.MaxFileBytes {
		err = exit.Errorf(exit.Failed, "the content has more than %d bytes, the limit for a file", lockapi.MaxFileBytes)
	}
	return content, err
}

func (c *putFile) run(ctx context.Context, args []string) error {
	if err := c.check(args); err != nil {
		return err
	}
	content, err := c.read()
	if err != nil {
		return err
	}
	if c.ephemeral {
		return c.putEphemeral(ctx, content)
	}
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	stat, err := c.Client.Put(ctx, c.path, content, c.conditions...)
	if err != nil {
		return aboutFile(c.path, err)
	}
	return c.showStat(stat)
}

func (c *putFile) showStat(stat lockapi.FileStat) error {
	return ui.Answer(c.UI, stat, nil, func(lockapi.FileStat) {
		c.UI.Printf("%s  revision %d  %s\n", format.Clean(stat.Path), stat.Revision, format.Plural(stat.Size, "byte"))
	})
}

// putEphemeral writes a file and keeps its session while a command runs, or
// until a signal.
//
// Signals are collected from the start, so that none is lost between writing
// the file and ending its session.
func (c *putFile) putEphemeral(ctx context.Context, content []byte) error {
	signals, stop := child.Signals()
	defer stop()
	var session *client.Session
	stat, err := app.CancelOnSignal(ctx, signals, nil, func(ctx context.Context) (stat lockapi.FileStat, err error) {
		ctx, cancel := c.WithTimeout(ctx)
		defer cancel()
		if session, err = c.Client.NewSession(ctx, client.TTL(c.ttl), client.Name(c.name)); errors.Is(err, client.ErrOutcomeUnknown) {
			return stat, client.ErrNoMaster // a session without a file may be open; nothing needs a check
		} else if err != nil {
			return stat, err
		}
		if stat, err = session.Put(ctx, c.path, content, append(c.conditions, client.Ephemeral())...); err != nil {
			err = aboutFile(c.path, err)
		}
		return stat, err
	})
	if session != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), app.ClosePatience(session))
			defer cancel()
			c.EndSession(ctx, session, "delete the file; it is gone")
		}()
	}
	if err != nil {
		return err
	}
	if len(c.cmd) > 0 {
		return c.runBeside(ctx, session, stat, signals)
	}
	early, err := app.UntilSignal(ctx, signals, func() error {
		defer c.UI.Note("Ctrl-C deletes it")
		return c.showStat(stat)
	}, session.Done())
	if early || err == nil && c.isOver(session) {
		return sessionOver()
	}
	return err
}

func sessionOver() *exit.Failure {
	return exit.Errorf(exit.Lost, "the session has ended (closed or expired), and the file with it")
}

// runBeside runs the command to its end. stout exits with its exit code.
func (c *putFile) runBeside(ctx context.Context, session *client.Session, stat lockapi.FileStat, signals <-chan os.Signal) error {
	if c.UI.JSON { // before what the command writes
		_, err := app.CancelOnSignal(ctx, signals, nil, func(ctx context.Context) (any, error) {
			return nil, wait.Do(ctx, func() error { return c.showStat(stat) })
		})
		if err != nil {
			return err
		}
	}
	result, err := c.RunCommand(child.Command{
		Args: c.cmd, Env: append(c.CellEnv(), "STOUT_PATH="+c.path),
		Margins: child.Margins{Term: app.LastSteps, Kill: app.LastSteps}, Revoked: session.Done(), Signals: signals,
	}, func(what child.Event) string {
		return app.Happened(what, c.cmd[0], "the session has ended", fmt.Sprintf("%s is gone in %s", format.Clean(c.path), format.Human(c.ttl)))
	})
	if result.Lost || c.isOver(session) {
		return sessionOver()
	}
	return err
}

// isOver reports whether a session is over. After the end of its lease it may have
// ended unwatched, while stout was stopped, so the cell is asked. It is not over
// if the cell cannot be reached.
func (c *putFile) isOver(session *client.Session) bool {
	if session.Err() != nil || session.Remaining() > 0 {
		return session.Err() != nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), app.ClosePatience(session))
	defer cancel()
	_, err := c.Admin.ReadSession(ctx, session.ID())
	return errors.Is(err, client.ErrSessionNotFound)
}
