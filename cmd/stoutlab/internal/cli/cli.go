// Package cli is the command line of stoutlab: a file for each command.
package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

// The exit codes.
const (
	exitOK     = 0
	exitOther  = 1
	exitBroken = 3  // safety or liveness does not hold: a result, not an error
	exitUsage  = 64 // EX_USAGE
)

// app is one run of stoutlab.
type app struct {
	out     bytes.Buffer // goes to stdout, or to the file, when all is well
	file    string
	code    int
	started bool // the command line was understood
}

// Run executes a command line (without the program's name) and returns the exit
// code.
func Run(version string, args []string, stdout, stderr io.Writer) int {
	a := &app{}
	root := a.root()
	root.Version = version
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		err = a.flush(stdout)
	}
	if err == nil {
		return a.code
	}
	fmt.Fprintf(stderr, "stoutlab: %v\n", err)
	if _, wrong := errors.AsType[*lab.Usage](err); wrong || !a.started {
		fmt.Fprintf(stderr, "See '%s --help'.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitOther
}

// flush writes what the command had to say.
func (a *app) flush(stdout io.Writer) error {
	if a.file != "" && a.out.Len() > 0 {
		return os.WriteFile(a.file, a.out.Bytes(), 0o666)
	}
	_, err := stdout.Write(a.out.Bytes())
	return err
}

const long = `The classical algorithms of election and mutual exclusion, run on a simulated
network: their messages are counted against the books, what happened is drawn,
and what breaks them is shown.

  stoutlab run ring -n 6 --initiators 3 --crash 5@elected --seed 7
  stoutlab draw bully --crash 3@after-ok -o svg --out bully.svg
  stoutlab explore maekawa -n 3
  stoutlab compare

Exit code 0: safety and liveness hold. 3: one of them does not, which is a
result. 64: the command line was not understood.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "stoutlab",
		Short:         "Run, count, draw and break the algorithms of election and mutual exclusion",
		Long:          long,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(wrongFlag)
	root.SetVersionTemplate("stoutlab {{.Version}}\n")
	root.AddCommand(a.list(), a.run(), a.draw(), a.play(), a.sweep(), a.explore(), a.compare())
	return root
}

// command finishes a command: where its output goes, and in which format.
func (a *app) command(cmd *cobra.Command, formats []string, do func(format string, args []string) error) *cobra.Command {
	var format string
	cmd.Flags().StringVarP(&format, "output", "o", formats[0], "format of the output: "+join(formats))
	cmd.Flags().StringVar(&a.file, "out", "", "write to this file instead of standard output")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		for _, f := range formats {
			if f == format {
				if err := checkGiven(cmd.Flags()); err != nil {
					return err
				}
				a.started = true
				return do(format, args)
			}
		}
		return fmt.Errorf("-o %q: this command writes %s", format, join(formats))
	}
	return cmd
}

// checkGiven refuses what would stand for the default if it were not given.
func checkGiven(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch value := f.Value.String(); {
		case value == "":
			err = lab.NewUsage("--%s: nothing is given", f.Name)
		case value != "0" || f.Value.Type() != "int":
		case f.Name == "n":
			err = lab.NewUsage("-n 0: there is at least 1 process")
		case f.Name == "bound" || f.Name == "lease":
			err = lab.NewUsage("--%s 0: it is at least 1 unit", f.Name)
		}
	})
	return err
}

// oneAlgorithm is the argument of the commands that run one.
func oneAlgorithm(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return lab.NewUsage("which algorithm? 'stoutlab list' has them all")
	case 1:
		return nil
	}
	return lab.NewUsage("%q: there is one algorithm at a time, and %s comes first", args[1], args[0])
}

// wrongFlag says what a flag's value should be.
func wrongFlag(_ *cobra.Command, err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	f, dashes := wrong.GetFlag(), "--"
	if len(f.Name) == 1 {
		dashes = "-"
	}
	should := map[string]string{
		"int": "a whole number", "uint64": "a whole number, 0 or more", "float64": "a number", "bool": "true or false",
	}[f.Value.Type()]
	if should == "" {
		return err
	}
	return lab.NewUsage("%s%s %q: it is %s", dashes, f.Name, wrong.GetValue(), should)
}

func join(words []string) string {
	text := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			text += " or " + w
		} else {
			text += ", " + w
		}
	}
	return text
}
