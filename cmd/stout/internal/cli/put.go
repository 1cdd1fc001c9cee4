package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// putFlags are what stout put was asked to do.
type putFlags struct {
	path      string
	content   *string // given as an argument
	file      string
	command   []string
	revision  uint64
	absent    bool
	ephemeral bool
	ttl       time.Duration
	name      string

	conditions []client.WriteOption
}

const putHelp = `Writes the file at PATH, whole: CONTENT, or what --file names, or else standard
input. A file has at most 256 KiB.

The write is sent once. Where its outcome is not known, because mastership
changed meanwhile, stout says so and ends with 1. Writing again may undo what
somebody else has written since; --if-revision and --if-absent guard against
that.

With --ephemeral the file ends with a session that stout opens for it: when CMD
ends, or at Ctrl-C, or the ttl after stout was killed. A file that another
session left there is taken over. While the cell can't be reached CMD goes on.
Once the cell says that the session is over, CMD gets a SIGTERM, and a SIGKILL
10s later. CMD finds STOUT_PATH and STOUT_SERVER in its environment.

Exit codes: 0 written, 1 the cell said no: the file is not as --if-revision or
--if-absent wants it, 2 wrong usage, 3 the cell has no master, 4 no replica can
be reached, 6 it is not known whether it is done. With CMD: its own, 128+n if
signal n ended it, 126 or 127 if it cannot be run, and 76 where the session was
over before.`

func (a *app) putCommand() *cobra.Command {
	var f putFlags
	cmd := &cobra.Command{
		Use:   "put PATH [CONTENT] [flags] [-- CMD [ARG]...]",
		Short: "Write a file",
		Long:  putHelp,
		Example: `  stout put /app/conf --file app.conf
  stout put /app/motd hello --if-absent
  stout put /servers/web1 10.0.0.7:80 --ephemeral -- ./web`,
		SuggestFor:            []string{"set", "write", "create"},
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     a.completePut,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.complete(cmd, args); err != nil {
				return err
			}
			return a.put(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "write what is in this `file`; - is standard input")
	flags.Uint64Var(&f.revision, "if-revision", 0, "only if the file is at this `revision`")
	flags.BoolVar(&f.absent, "if-absent", false, "only if there is no such file")
	flags.BoolVar(&f.ephemeral, "ephemeral", false, "the file is there while CMD runs, or until Ctrl-C")
	flags.DurationVar(&f.ttl, "ttl", lockapi.DefaultTTLMS*time.Millisecond, "`duration` for which an ephemeral file outlives a stout that has gone")
	flags.StringVar(&f.name, "name", "", "`name` of the session, for operators (default user@host)")
	for _, name := range []string{"if-revision", "ttl", "name"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// complete takes the arguments in.
func (f *putFlags) complete(cmd *cobra.Command, args []string) error {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		args, f.command = args[:dash], args[dash:]
		if len(f.command) == 0 {
			return usagef("there is no command after --")
		}
	}
	switch {
	case len(args) == 0:
		return usagef("which file? PATH is missing")
	case len(args) > 2:
		return usagef("unexpected argument %q", args[2]).
			hint("a command goes behind --: stout put %s %q --ephemeral -- %s", args[0], args[1], strings.Join(args[2:], " "))
	case f.file == "" && cmd.Flags().Changed("file"):
		return usagef("--file is empty; - stands for standard input")
	case len(args) == 2 && f.file != "":
		return usagef("%q and --file %s name two contents", args[1], f.file)
	case len(args) == 2:
		f.content = &args[1]
	}
	f.path = args[0]
	if err := validPath(f.path); err != nil {
		return err
	}
	if err := f.checkSession(cmd); err != nil {
		return err
	}
	if f.absent {
		f.conditions = append(f.conditions, client.IfAbsent())
	}
	if cmd.Flags().Changed("if-revision") {
		f.conditions = append(f.conditions, client.IfRevision(f.revision))
	}
	if len(f.conditions) > 1 {
		return usagef("--if-absent and --if-revision contradict each other")
	}
	return nil
}

// checkSession checks what is about the session of an ephemeral file.
func (f *putFlags) checkSession(cmd *cobra.Command) error {
	if !f.ephemeral {
		for _, name := range []string{"ttl", "name"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s is about the session of --ephemeral", name)
			}
		}
		if f.command != nil {
			return usagef("a command goes with --ephemeral only")
		}
	}
	if f.name == "" {
		f.name = defaultName()
	}
	if len(f.name) > lockapi.MaxNameBytes {
		return usagef("--name has %d bytes; at most %d are allowed", len(f.name), lockapi.MaxNameBytes)
	}
	return within("--ttl", f.ttl, lockapi.MinTTLMS, lockapi.MaxTTLMS)
}

// read is the content to write.
func (a *app) read(f *putFlags) ([]byte, error) {
	if f.content != nil {
		return []byte(*f.content), nil
	}
	in := a.stdin
	if f.file != "" && f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return nil, &failure{code: exitUsage, message: err.Error()}
		}
		defer file.Close()
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, lockapi.MaxFileBytes+1))
	if err != nil {
		return nil, &failure{code: exitFailed, message: err.Error()}
	}
	if len(content) > lockapi.MaxFileBytes {
		return nil, &failure{code: exitFailed, message: fmt.Sprintf("the content has more than %d bytes, which is the most that a file has", lockapi.MaxFileBytes)}
	}
	return content, nil
}

func (a *app) put(ctx context.Context, f *putFlags) error {
	content, err := a.read(f)
	if err != nil {
		return err
	}
	if f.ephemeral {
		return a.putEphemeral(ctx, f, content)
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	stat, err := a.client.Put(ctx, f.path, content, f.conditions...)
	if err != nil {
		return aboutFile(f.path, err)
	}
	return a.showStat(stat)
}

func (a *app) showStat(stat lockapi.FileStat) error {
	if a.ui.json {
		return a.ui.object(stat)
	}
	a.ui.printf("%s  revision %d  %s\n", clean(stat.Path), stat.Revision, plural(stat.Size, "byte"))
	return nil
}
