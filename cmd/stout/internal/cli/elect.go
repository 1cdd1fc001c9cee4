package cli

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
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

// electCommand is stout elect.
type electCommand struct {
	lockCommand
	value  string
	listen bool
}

func (a *app) elect() command {
	c := &electCommand{lockCommand: lockCommand{app: a}}
	return command{
		run: c.run,
		use: "elect PATH [flags] [-- CMD [ARG]...]", short: "Run a command while being the leader", like: "election campaign leader lead",
		long: electHelp, words: thenFiles(a.completePath()), all: true, endless: true,
		example: `  stout elect /web/primary --value 10.0.0.7:80 -- ./serve
  stout elect /web/primary --listen`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.value, "value", "", "the leader's `value`, such as its address (default: the session's name)")
			f.BoolVar(&c.listen, "listen", false, "print the value of each leader")
			c.bindCommon(f)
		},
	}
}

func (c *electCommand) run(ctx context.Context, args []string) error {
	if before, _ := c.behindDash(args); len(before) > 1 {
		return usagef("unexpected argument %q", before[1]).hint("give the leader's value by --value, and the command after --: stout elect %s --value %s -- CMD", before[0], before[1])
	}
	if !c.listen {
		c.lockFlags.prepare, c.retract = c.publish, c.withdraw
		return c.lockCommand.run(ctx, args)
	}
	args, command := c.behindDash(args)
	switch {
	case command != nil:
		return usagef("--listen runs no command")
	case len(args) != 1:
		return usagef("--listen needs one PATH")
	}
	if err := validPath(args[0]); err != nil {
		return err
	}
	for leader, err := range recipe.Observe(ctx, c.client, args[0]) {
		switch {
		case err != nil:
			return err
		case leader.Revision == 0:
			c.ui.note("there is no leader")
		case c.ui.json:
			err = c.ui.object(struct {
				Value    string `json:"value"`
				Revision uint64 `json:"revision"`
			}{string(leader.Value), leader.Revision})
		default:
			c.ui.printf("%s\n", format.Clean(string(leader.Value)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// publish writes the leader's value.
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
