package cli

import (
	"cmp"
	"context"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// command is a command of stout.
//
// The number of arguments follows from use, such as "show PATH", "list
// [PREFIX]" and "add NAME MEMBER...". A command with "[flags]" in it checks its
// arguments itself.
type command struct {
	use, short, long, example string
	exits                     string               // the meaning of its exit codes, see reads
	like                      string               // words that suggest it
	flags                     func(*pflag.FlagSet) // binds its flags
	check                     func(string) error   // checks its first argument, if there is one
	words                     completer            // completes its first argument; nil for no completion
	all                       bool                 // words also completes the other arguments
	values                    map[string]completer // completers of its flags
	alone                     bool                 // it calls no cell
	endless                   bool                 // --timeout limits single calls, not the whole run
	about                     func(error) error    // rewords errors, also for its subcommands
	sub                       []command            // its subcommands
	first                     bool                 // without a subcommand it is the first one
	say                       string               // the error without a subcommand; a default if empty
	run                       func(ctx context.Context, args []string) error
}

// noSubcommand is what a command with subcommands does alone.
func (c command) noSubcommand(ctx context.Context, args []string) error {
	if c.first {
		return c.sub[0].run(ctx, args)
	}
	var names []string
	for _, s := range c.sub {
		name, _, _ := strings.Cut(s.use, " ")
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if i := strings.LastIndex(text, ", "); i >= 0 {
		text = text[:i] + " or " + text[i+2:]
	}
	return usagef("%s: stout %s %s", cmp.Or(c.say, "a subcommand is missing"), c.use, text)
}

func (a *app) build(c command, about func(error) error) *cobra.Command {
	if c.about == nil {
		c.about = about
	}
	if c.sub != nil {
		c.run = c.noSubcommand
	}
	if c.first {
		c.long, c.exits = c.sub[0].long, c.sub[0].exits
	}
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example, SuggestFor: strings.Fields(c.like),
		Args: arguments(c.use), ValidArgsFunction: c.words,
		DisableFlagsInUseLine: strings.Contains(c.use, "[flags]") || strings.Contains(c.use, "[--"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.flags = cmd.Flags()
			ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
			if !c.endless {
				ctx, cancel = a.bounded(ctx)
			}
			defer cancel()
			var err error
			if c.check != nil && len(args) > 0 {
				err = c.check(args[0])
			}
			if err == nil {
				err = c.run(ctx, args)
			}
			if err != nil && c.about != nil {
				return c.about(err)
			}
			return err
		},
	}
	if c.exits != "" {
		cmd.Long += "\n\n" + strings.Join(wrap("Exit codes: "+c.exits+".", pageWidth), "\n")
	}
	switch {
	case c.words == nil && !strings.Contains(c.use, "FILE"):
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	case c.words != nil && !c.all:
		cmd.ValidArgsFunction = firstOnly(c.words, cobra.ShellCompDirectiveNoFileComp)
	}
	cmd.PersistentPreRunE = a.prepare
	if c.alone || len(c.sub) > 0 && !c.first {
		cmd.PersistentPreRunE = a.prepareAlone
	}
	if c.flags != nil {
		c.flags(cmd.Flags())
		completeFlags(cmd, c.values)
	}
	for _, s := range c.sub {
		cmd.AddCommand(a.build(s, c.about))
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
func completeFlags(cmd *cobra.Command, values map[string]completer) {
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

func (a *app) given(flag string) bool { return a.flags.Changed(flag) }

// behindDash splits the arguments at "--". after is nil if there is no "--".
func (a *app) behindDash(args []string) (before, after []string) {
	if dash := a.flags.ArgsLenAtDash(); dash >= 0 {
		return args[:dash], args[dash:]
	}
	return args, nil
}

// viewer completes a command that reads something and prints it.
func viewer[T any](a *app, c command, read func(ctx context.Context, args []string) (T, error), show func(T)) command {
	c.run = func(ctx context.Context, args []string) error {
		got, err := read(ctx, args)
		return answer(a.ui, got, err, show)
	}
	return c
}

// answer prints v as JSON or by text, unless err is set.
func answer[T any](u *ui, v T, err error, text func(T)) error {
	switch {
	case err != nil:
		return err
	case u.json:
		return u.object(v)
	}
	text(v)
	return nil
}

func rows[T any](items []T, row func(T) []string) [][]string {
	out := make([][]string, len(items))
	for i, item := range items {
		out[i] = row(item)
	}
	return out
}
