// Package cli is the command line of stoutlab, with one file per command.
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
	out     bytes.Buffer // goes to stdout or to the file, unless the command fails
	file    string
	code    int
	started bool // the command line was valid
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

func (a *app) flush(stdout io.Writer) error {
	if a.file != "" && a.out.Len() > 0 {
		return os.WriteFile(a.file, a.out.Bytes(), 0o666)
	}
	_, err := stdout.Write(a.out.Bytes())
	return err
}

const long = `stoutlab runs the classical algorithms of election and mutual exclusion on a
simulated network. It compares their messages with the books' counts, draws
their runs, and shows what breaks them.

  stoutlab run ring -n 6 --initiators 3 --seed 7
  stoutlab draw bully --crash 3@after-ok -o svg --out bully.svg
  stoutlab explore maekawa -n 3
  stoutlab compare

Exit codes: 0 safety and liveness hold; 3 one of them does not, which is a
result; 64 wrong usage; 1 any other error.`

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

// command adds the flags for output and format to a command.
func (a *app) command(cmd *cobra.Command, formats []string, do func(format string, args []string) error) *cobra.Command {
	var format string
	cmd.Flags().StringVarP(&format, "output", "o", formats[0], "output format: "+join(formats))
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
		return fmt.Errorf("-o %q: this command supports %s", format, join(formats))
	}
	return cmd
}

// checkGiven refuses explicit values that would mean the default.
func checkGiven(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch value := f.Value.String(); {
		case value == "":
			err = lab.NewUsage("--%s: the value is empty", f.Name)
		case value != "0" || f.Value.Type() != "int":
		case f.Name == "n":
			err = lab.NewUsage("-n 0: want at least 1 process")
		case f.Name == "bound" || f.Name == "lease":
			err = lab.NewUsage("--%s 0: want at least 1 unit", f.Name)
		}
	})
	return err
}

// oneAlgorithm checks the arguments of commands that run one algorithm.
func oneAlgorithm(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return lab.NewUsage("name an algorithm; 'stoutlab list' shows all")
	case 1:
		return nil
	}
	return lab.NewUsage("%q: want one algorithm, already got %s", args[1], args[0])
}

// wrongFlag explains which value a flag needs.
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
	return lab.NewUsage("%s%s %q: want %s", dashes, f.Name, wrong.GetValue(), should)
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
