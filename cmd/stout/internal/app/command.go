package app

import (
	"cmp"
	"context"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
)

// Command is a command of stout.
//
// The number of arguments follows from Use, such as "show PATH", "list
// [PREFIX]" and "add NAME MEMBER...". A command with "[flags]" in it checks its
// arguments itself.
type Command struct {
	Use, Short, Long, Example string
	Exits                     string               // the meaning of its exit codes, see exit.Reads
	SuggestFor                string               // words that suggest it
	Flags                     func(*pflag.FlagSet) // binds its flags
	Check                     func(string) error   // checks its first argument, if there is one
	Complete                  Completer            // completes its first argument; nil for no completion
	CompleteAll               bool                 // Complete also completes the other arguments
	CompleteFlags             map[string]Completer // completers of its flags
	Local                     bool                 // it calls no cell
	Unlimited                 bool                 // --timeout limits single calls, not the whole run
	Explain                   func(error) error    // rewords errors, also for its subcommands
	Sub                       []Command            // its subcommands
	First                     bool                 // without a subcommand it is the first one
	Missing                   string               // the error without a subcommand; a default if empty
	Run                       func(ctx context.Context, args []string) error
}

// noSubcommand is what a command with subcommands does alone.
func (c Command) noSubcommand(ctx context.Context, args []string) error {
	if c.First {
		return c.Sub[0].Run(ctx, args)
	}
	var names []string
	for _, s := range c.Sub {
		name, _, _ := strings.Cut(s.Use, " ")
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if i := strings.LastIndex(text, ", "); i >= 0 {
		text = text[:i] + " or " + text[i+2:]
	}
	return exit.Usagef("%s: stout %s %s", cmp.Or(c.Missing, "a subcommand is missing"), c.Use, text)
}

func (a *App) build(c Command, about func(error) error) *cobra.Command {
	if c.Explain == nil {
		c.Explain = about
	}
	if c.Sub != nil {
		c.Run = c.noSubcommand
	}
	if c.First {
		c.Long, c.Exits = c.Sub[0].Long, c.Sub[0].Exits
	}
	cmd := &cobra.Command{
		Use: c.Use, Short: c.Short, Long: c.Long, Example: c.Example, SuggestFor: strings.Fields(c.SuggestFor),
		Args: arguments(c.Use), ValidArgsFunction: c.Complete,
		DisableFlagsInUseLine: strings.Contains(c.Use, "[flags]") || strings.Contains(c.Use, "[--"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Flags = cmd.Flags()
			ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
			if !c.Unlimited {
				ctx, cancel = a.WithTimeout(ctx)
			}
			defer cancel()
			var err error
			if c.Check != nil && len(args) > 0 {
				err = c.Check(args[0])
			}
			if err == nil {
				err = c.Run(ctx, args)
			}
			if err != nil && c.Explain != nil {
				return c.Explain(err)
			}
			return err
		},
	}
	if c.Exits != "" {
		cmd.Long += "\n\n" + strings.Join(ui.Wrap("Exit codes: "+c.Exits+".", ui.PageWidth), "\n")
	}
	switch {
	case c.Complete == nil && !strings.Contains(c.Use, "FILE"):
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	case c.Complete != nil && !c.CompleteAll:
		cmd.ValidArgsFunction = firstOnly(c.Complete, cobra.ShellCompDirectiveNoFileComp)
	}
	cmd.PersistentPreRunE = a.prepare
	if c.Local || len(c.Sub) > 0 && !c.First {
		cmd.PersistentPreRunE = a.prepareAlone
	}
	if c.Flags != nil {
		c.Flags(cmd.Flags())
		completeFlags(cmd, c.CompleteFlags)
	}
	for _, s := range c.Sub {
		cmd.AddCommand(a.build(s, c.Explain))
	}
	return cmd
}

// arguments returns how many arguments a command takes, from its usage line.
func arguments(use string) cobra.PositionalArgs {
	least, most := 0, 0
	for _, word := range strings.Fields(use)[1:] {
		if word == "[flags]" {
			return cobra.ArbitraryArgs
		}
		if strings.HasPrefix(word, "--") || strings.HasPrefix(word, "[--") {
			break
		}
		if most++; !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.HasSuffix(word, "...") {
			most = math.MaxInt
		}
	}
	switch {
	case most == 0:
		return cobra.NoArgs
	case most == math.MaxInt:
		return cobra.MinimumNArgs(least)
	case least == most:
		return cobra.ExactArgs(least)
	case least == 0:
		return cobra.MaximumNArgs(most)
	}
	return cobra.RangeArgs(least, most)
}

// completeFlags registers completion: file names for flags that take files,
// values for the others, or else nothing.
func completeFlags(cmd *cobra.Command, values map[string]Completer) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		words := values[f.Name]
		if kind, _ := pflag.UnquoteUsage(f); words == nil && kind != "" && kind != "file" && kind != "directory" {
			words = cobra.NoFileCompletions
		}
		if words != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, words)
		}
	})
}

// Given reports whether the command line has a flag.
func (a *App) Given(flag string) bool { return a.Flags.Changed(flag) }

// CutArgs splits the arguments at "--". after is nil if there is no "--".
func (a *App) CutArgs(args []string) (before, after []string) {
	if dash := a.Flags.ArgsLenAtDash(); dash >= 0 {
		return args[:dash], args[dash:]
	}
	return args, nil
}

// Viewer completes a command that reads something and prints it.
func Viewer[T any](a *App, c Command, read func(ctx context.Context, args []string) (T, error), show func(T)) Command {
	c.Run = func(ctx context.Context, args []string) error {
		got, err := read(ctx, args)
		return ui.Answer(a.UI, got, err, show)
	}
	return c
}

// Collect gathers all items of a paged list. Without an error the result is not
// nil, so that JSON has an empty list.
func Collect[T any](items iter.Seq2[T, error]) ([]T, error) {
	out := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// CollectPages is Collect of a list that may be long: each of its pages may take
// --timeout.
func CollectPages[T any](ctx context.Context, a *App, list func(context.Context) iter.Seq2[T, error]) ([]T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(a.Options.Timeout, func() { cancel(context.DeadlineExceeded) })
	defer silent.Stop()
	return Collect(func(yield func(T, error) bool) {
		for item, err := range list(ctx) {
			silent.Reset(a.Options.Timeout)
			if !yield(item, err) {
				return
			}
		}
	})
}
