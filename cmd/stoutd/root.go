package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/nonblock"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/internal/suggest"
)

// Exit codes, from sysexits(3) if possible. They show a supervisor whether another
// start makes sense.
const (
	exitOK     = 0  // orderly stop
	exitStart  = 1  // could not start: a taken port, a refused data directory
	exitUsage  = 64 // unknown command or flag
	exitFault  = 74 // ended itself on a fault: a failed write, a log it cannot read
	exitConfig = 78 // the settings were refused
)

// exitError carries the exit code of a failed command.
type exitError struct {
	code   int
	err    error
	logged bool // the log has it already
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// run serves until ctx ends, or runs a subcommand, and returns the exit code. Logs
// and errors go to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	log := setup.Lines(stderr)
	defer log.Flush(lastLines)
	root := newRoot(log)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	exit := exitError{}
	if !errors.As(err, &exit) {
		fmt.Fprintf(log, "stoutd: %s%s\nRun 'stoutd --help' for usage.\n", safetext.Page(err.Error()), meant(cmd, err))
		return exitUsage
	}
	if !exit.logged {
		fmt.Fprintf(log, "stoutd: %s\n", safetext.Page(err.Error()))
	}
	return exit.code
}

// meant returns a hint to the command or flag that is spelled like the unknown one
// in err, an error of cobra or pflag.
func meant(cmd *cobra.Command, err error) string {
	var word string
	names, dashes := []string{}, ""
	if flag := (*pflag.NotExistError)(nil); errors.As(err, &flag) {
		word, dashes = flag.GetSpecifiedName(), "--"
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	} else if n, _ := fmt.Sscanf(err.Error(), "unknown command %q for", &word); n == 1 {
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
	}
	if dashes == "" && slices.Contains([]string{"agent", "run", "serve", "server", "start"}, word) {
		return ": without a command stoutd serves"
	}
	if name := suggest.Nearest(word, names); name != "" {
		return fmt.Sprintf("; did you mean %s%s?", dashes, name)
	}
	return ""
}

const longHelp = `stoutd is one replica of a Stout cell: three or five of them elect a master,
which serves sessions and locks over HTTP. Without a command it runs the replica.

Flags override environment variables, those override the YAML file of --config,
and that overrides the defaults. The variable for --master-lease is
STOUTD_MASTER_LEASE; ";" or white space separates the values of a list.
"stoutd config" shows the values in force.

On SIGTERM or SIGINT the replica hands mastership over, releases waiting calls
and stops. A second signal ends the process at once.

Exit codes: 0 orderly stop, 1 could not start, 64 wrong usage, 74 fault (a
failed disk write, an unreadable log, a stop that hangs), 78 settings refused.`

const examples = `  stoutd --dev
  stoutd --config /etc/stout/r1.yaml
  stoutd --cell local --id r1 --data-dir r1 --api-listen 127.0.0.1:7101 --raft-listen 127.0.0.1:7201 \
    --replica r1=127.0.0.1:7201,http://127.0.0.1:7101 \
    --replica r2=127.0.0.1:7202,http://127.0.0.1:7102 \
    --replica r3=127.0.0.1:7203,http://127.0.0.1:7103`

// newRoot builds the command and its subcommands. The flags of the settings are
// persistent: the subcommands accept them as well. Log lines go to log.
func newRoot(log *nonblock.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "stoutd",
		Short:         "One replica of a Stout cell",
		Long:          longHelp,
		Example:       examples,
		Version:       buildinfo.Get().String(),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetVersionTemplate("stoutd {{.Version}}\n")
	root.Flags().SortFlags, root.PersistentFlags().SortFlags = false, false
	flags := config.AddFlags(root.PersistentFlags())
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(cmd.Context(), flags, os.Environ())
		switch {
		case errors.Is(err, context.Canceled):
			return exitError{code: exitOK, err: err} // a requested stop
		case err != nil:
			return exitError{code: exitConfig, err: err}
		}
		c.Stdout, c.Stderr = cmd.OutOrStdout(), log
		return serve(cmd.Context(), c)
	}
	root.AddCommand(newConfigCommand(flags), newRestoreCommand(flags), newRecoverCommand(flags), newVersionCommand())
	return root
}

func newConfigCommand(flags *config.Flags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force and the source of each value",
		Long: `Show the settings in force and the source of each value. Nothing is started.
Invalid settings are shown, too, with the reasons on stderr and exit code 78.
-o yaml writes a file for --config.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, refused := config.Load(cmd.Context(), flags, os.Environ())
			if errors.Is(refused, context.Canceled) {
				return exitError{code: exitStart, err: refused}
			}
			write := map[string]func(io.Writer) error{"table": c.WriteTable, "yaml": c.WriteYAML}[output]
			if write == nil {
				return fmt.Errorf("--output %q: it is one of table, yaml", output)
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return exitError{code: exitStart, err: err}
			}
			if refused != nil {
				return exitError{code: exitConfig, err: refused}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`format`: table or yaml")
	return cmd
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := buildinfo.Get()
			switch output {
			case "text":
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "stoutd %s\n", info)
				return err
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
			}
			return fmt.Errorf("--output %q: it is one of text, json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`format`: text or json")
	return cmd
}
