package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
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

// putFile is stout put.
type putFile struct {
	*app
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

func (a *app) putFile() command {
	c := &putFile{app: a}
	return command{
		run: c.run,
		use: "put PATH [CONTENT] [flags] [-- CMD [ARG]...]", short: "Write a file", like: "set write create",
		long: putHelp, words: thenFiles(c.completeFile()), all: true, endless: true,
		exits: changeExits("written", "the cell refused: --if-revision or --if-absent does not hold") +
			"; with CMD: its own, 128+n if signal n ended it, 126 or 127 if it cannot be run, and 76 if the session ended before CMD",
		example: `  stout put /app/conf --file app.conf
  stout put /app/motd hello --if-absent
  stout put /servers/web1 10.0.0.7:80 --ephemeral -- ./web`,
		flags: func(f *pflag.FlagSet) {
			f.StringVarP(&c.file, "file", "f", "", "write the content of this `file`; - is standard input")
			f.Uint64Var(&c.revision, "if-revision", 0, "write only if the file is at this `revision`")
			f.BoolVar(&c.absent, "if-absent", false, "write only if the file does not exist")
			f.BoolVar(&c.ephemeral, "ephemeral", false, "keep the file only while CMD runs, or until Ctrl-C")
			addTTL(f, &c.ttl, "`duration` after which an ephemeral file is deleted if stout vanishes")
			addName(f, &c.name)
		},
	}
}

func (c *putFile) check(args []string) error {
	args, c.cmd = c.behindDash(args)
	switch {
	case c.cmd != nil && len(c.cmd) == 0:
		return usagef("there is no command after --")
	case len(args) == 0:
		return usagef("PATH is missing: the file to write")
	case len(args) > 2:
		return usagef("unexpected argument %q", args[2]).
			hint("write the command after --: stout put %s %q --ephemeral -- %s", args[0], args[1], strings.Join(args[2:], " "))
	case c.file == "" && c.given("file"):
		return usagef("--file is empty; - is standard input")
	case len(args) == 2 && c.file != "":
		return usagef("%q and --file %s exclude each other: both give the content", args[1], c.file)
	case len(args) == 2:
		c.content = &args[1]
	}
	c.path = args[0]
	if err := validPath(c.path); err != nil {
		return err
	}
	for _, name := range []string{"ttl", "name"} {
		if !c.ephemeral && c.given(name) {
			return usagef("--%s needs --ephemeral", name)
		}
	}
	if !c.ephemeral && c.cmd != nil {
		return usagef("a command needs --ephemeral")
	}
	if err := checkSession(c.ttl, &c.name); err != nil {
		return err
	}
	if c.absent {
		c.conditions = append(c.conditions, client.IfAbsent())
	}
	if c.given("if-revision") {
		c.conditions = append(c.conditions, client.IfRevision(c.revision))
	}
	if len(c.conditions) > 1 {
		return usagef("--if-absent and --if-revision exclude each other")
	}
	return nil
}

func (c *putFile) read() ([]byte, error) {
	if c.content != nil {
		return []byte(*c.content), nil
	}
	content, err := c.input(c.file, lockapi.MaxFileBytes)
	if err == nil && len(content) > lockapi.MaxFileBytes {
		err = &failure{code: exitFailed, message: fmt.Sprintf("the content has more than %d bytes, the limit for a file", lockapi.MaxFileBytes)}
	}
	return content, err
}

// input reads a file, or standard input for "-" or no name. It reads one byte
// more than most, so that a longer content shows.
func (a *app) input(name string, most int64) ([]byte, error) {
	in := a.stdin
	if name != "" && name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer file.Close()
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		err = &failure{code: exitFailed, message: err.Error()}
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
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	stat, err := c.client.Put(ctx, c.path, content, c.conditions...)
	if err != nil {
		return aboutFile(c.path, err)
	}
	return c.showStat(stat)
}

func (c *putFile) showStat(stat lockapi.FileStat) error {
	return answer(c.ui, stat, nil, func(lockapi.FileStat) {
		c.ui.printf("%s  revision %d  %s\n", format.Clean(stat.Path), stat.Revision, format.Plural(stat.Size, "byte"))
	})
}

// lastSteps is how long a command may run after its session is over. Its file
// is gone, so no other session waits for it.
const lastSteps = 10 * time.Second

// putEphemeral writes a file and keeps its session while a command runs, or
// until a signal.
//
// Signals are collected from the start, so that none is lost between writing
// the file and ending its session.
func (c *putFile) putEphemeral(ctx context.Context, content []byte) error {
	signals, stop := child.Signals()
	defer stop()
	var session *client.Session
	stat, err := unlessSignalled(ctx, signals, nil, func(ctx context.Context) (stat lockapi.FileStat, err error) {
		ctx, cancel := c.bounded(ctx)
		defer cancel()
		if session, err = c.client.NewSession(ctx, client.TTL(c.ttl), client.Name(c.name)); err != nil {
			return stat, err
		}
		if stat, err = session.Put(ctx, c.path, content, append(c.conditions, client.Ephemeral())...); err != nil {
			err = aboutFile(c.path, err)
		}
		return stat, err
	})
	if session != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), closePatience(session))
			defer cancel()
			c.endSession(ctx, session, "delete the file; it is gone")
		}()
	}
	if err != nil {
		return err
	}
	if len(c.cmd) > 0 {
		return c.runBeside(ctx, session, stat, signals)
	}
	early, err := untilSignal(ctx, signals, func() error {
		defer c.ui.note("Ctrl-C deletes it")
		return c.showStat(stat)
	}, session.Done())
	if early {
		return sessionOver()
	}
	return err
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
func (c *putFile) runBeside(ctx context.Context, session *client.Session, stat lockapi.FileStat, signals <-chan os.Signal) error {
	if c.ui.json { // before what the command writes
		_, err := unlessSignalled(ctx, signals, nil, func(ctx context.Context) (any, error) {
			return nil, wait.Do(ctx, func() error { return c.showStat(stat) })
		})
		if err != nil {
			return err
		}
	}
	result, err := c.runCommand(child.Command{
		Args: c.cmd, Env: append(c.cellEnvironment(), "STOUT_PATH="+c.path),
		Margins: child.Margins{Term: lastSteps, Kill: lastSteps}, Revoked: session.Done(), Signals: signals,
	}, make(unbounded), func(what child.Event) string {
		return happened(what, c.cmd[0], "the session has ended", fmt.Sprintf("%s is gone in %s", format.Clean(c.path), format.Human(c.ttl)))
	})
	if result.Lost || session.Err() != nil {
		return sessionOver()
	}
	return err
}
