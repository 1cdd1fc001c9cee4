package cli

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/lockapi"
)

const cellHelp = `Shows the principals that observe the cell (its state, sessions, members and
metrics) and those with the right to operate it, that is, to do everything
without a rule. user:root always operates the cell.`

func (a *app) cellAccess() runner {
	show := viewer(a, command{use: "show", short: "Show the observers and operators of the cell", long: cellHelp, exits: reads, like: "get list"},
		func(ctx context.Context, _ []string) (lockapi.CellAccess, error) { return a.client.Access().Cell(ctx) }, a.printCellAccess)
	return group{
		use: "cell", short: "Show and set the observers and operators of the cell", like: "operators observers operate observe",
		long: cellHelp, exits: reads, first: true, sub: []runner{show, &setCellAccess{app: a, who: whoFlags{}}},
	}
}

func (a *app) printCellAccess(lists lockapi.CellAccess) {
	withRoot := func(list []string) string {
		list = append([]string{lockapi.PrincipalRoot}, list...)
		return entries(list, len(list))
	}
	a.ui.pairs([2]string{"observe", withRoot(lists.Observe)}, [2]string{"operate", withRoot(lists.Operate)})
}

type setCellAccess struct {
	*app
	who whoFlags
	yes bool
}

func (c *setCellAccess) command() command {
	return command{
		use: "set [--observe WHO] [--operate WHO]", short: "Set the observers and operators of the cell",
		long: `Sets the observers and the operators of the cell. WHO is user:NAME, group:NAME,
* for every authenticated user, or anonymous, separated by commas; "nobody" is
an empty list. A list that is not given stays as it is.

The command asks first if you would no longer operate the cell; --yes skips the
question.`,
		example: `  stout access cell set --observe '*' --operate group:ops`,
		exits:   changes, values: completeWho("observe", "operate"), endless: true,
		flags: func(f *pflag.FlagSet) {
			c.who.bind(f, "observe", "`who` may see the cell's state, sessions, members and metrics")
			c.who.bind(f, "operate", "`who` may do everything")
			addYes(f, &c.yes)
		},
	}
}

func (c *setCellAccess) run(ctx context.Context, _ []string) error {
	given, err := c.who.lists(c.app)
	if err == nil && len(given) == 0 {
		err = usagef("nothing to set: give --observe or --operate")
	}
	for name, list := range given {
		if list == nil {
			err = usagef("--%s: the cell has no parent to inherit from", name)
		}
	}
	if err != nil {
		return err
	}
	access := c.client.Access()
	return edit(ctx, c.app, access.Cell, func(lists *lockapi.CellAccess) error {
		now := lists.Operate
		if list, ok := given["observe"]; ok {
			lists.Observe = list
		}
		list, ok := given["operate"]
		if !ok {
			return nil
		}
		lists.Operate = list
		return c.keepsOperating(ctx, now, list)
	}, access.PutCell, c.printCellAccess)
}

// keepsOperating asks if the caller operates the cell now and would lose that.
func (c *setCellAccess) keepsOperating(ctx context.Context, now, then []string) error {
	if c.yes {
		return nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	me, err := c.client.Access().WhoAmI(ctx)
	if err != nil || me.Principal == lockapi.PrincipalRoot {
		return nil // root always operates the cell
	}
	book := &rulebook{access: c.client.Access()}
	was, _ := book.entryFor(ctx, now, me.Principal)
	is, _ := book.entryFor(ctx, then, me.Principal)
	if was == "" || is != "" {
		return nil
	}
	return c.warnOfLoss(me.Principal, "operate the cell", "the holder of a token of "+lockapi.PrincipalRoot)
}
