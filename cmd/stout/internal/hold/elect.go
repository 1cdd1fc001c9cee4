package hold

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
)

const electHelp = `Runs CMD while this process is the leader at PATH: it holds the lock there, and
its value is in the file there, which ends with its session. Other candidates
wait in the queue of the lock. Without CMD it leads until Ctrl-C. Programs that
use client/recipe can be candidates, too.

--listen runs for no office: it prints the value of the present leader, and then
that of each next one, until Ctrl-C. While there is no leader it prints nothing.

CMD is run as by stout lock: stout lock --help has its environment, its signals
and the exit codes.`

type electCommand struct {
	lockCommand
	value  string
	listen bool
}

func (c *electCommand) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "elect PATH [flags] [-- CMD [ARG]...]", Short: "Run a command while being the leader", SuggestFor: "election campaign leader lead",
		Long: electHelp, Complete: app.ThenFiles(c.CompletePath()), CompleteAll: true, Unlimited: true,
		Example: `  stout elect /web/primary --value 10.0.0.7:80 -- ./serve
  stout elect /web/primary --listen`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.value, "value", "", "the leader's `value`, such as its address (default: the session's name)")
			f.BoolVar(&c.listen, "listen", false, "print the value of each leader")
			c.bindCommon(f)
		},
	}
}

func (c *electCommand) run(ctx context.Context, args []string) error {
	if before, _ := c.CutArgs(args); len(before) > 1 {
		return exit.Usagef("unexpected argument %q", before[1]).Hint("give the leader's value by --value, and the command after --: stout elect %s --value %s -- CMD", before[0], before[1])
	}
	if !c.listen {
		c.lockFlags.prepare, c.retract = c.publish, c.withdraw
		return c.lockCommand.run(ctx, args)
	}
	args, command := c.CutArgs(args)
	switch {
	case command != nil:
		return exit.Usagef("--listen runs no command")
	case len(args) != 1:
		return exit.Usagef("--listen needs one PATH")
	}
	if err := app.ValidPath(args[0]); err != nil {
		return err
	}
	if err := c.answers(ctx, args[0]); err != nil {
		return err
	}
	for leader, err := range recipe.Observe(ctx, c.Client, args[0]) {
		switch {
		case err != nil:
			return err
		case leader.Revision == 0:
			c.UI.Note("there is no leader")
		case c.UI.JSON:
			err = c.UI.Object(struct {
				Value    string `json:"value"`
				Revision uint64 `json:"revision"`
			}{string(leader.Value), leader.Revision})
		default:
			c.UI.Printf("%s\n", format.Clean(string(leader.Value)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answers checks that the cell answers. After that, --listen waits as long as it
// takes.
func (c *electCommand) answers(ctx context.Context, path string) error {
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	_, err := recipe.Now(ctx, c.Client, path)
	return err
}

func (c *electCommand) publish(ctx context.Context, h *heldLock) error {
	value := c.value
	if value == "" {
		value = h.flags.name
	}
	_, err := h.session.Put(ctx, h.Path(), []byte(value), client.Ephemeral(), client.While(h.Held))
	return err
}

// withdraw deletes the leader's value while it still leads. If that fails, the
// value ends with the session.
func (c *electCommand) withdraw(ctx context.Context, h *heldLock) error {
	_, err := h.session.Delete(ctx, h.Path(), client.While(h.Held))
	return err
}
