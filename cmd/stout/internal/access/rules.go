package access

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// rules are the commands of stout access rules and of stout access cell.
type rules struct{ *app.App }

func (a *rules) listRules() app.Command {
	prefix := ""
	return app.Viewer(a.App, app.Command{
		Use: "list [PREFIX]", Short: "List the rules", Exits: exit.Reads, SuggestFor: "ls", Complete: completeRule(a.App), Check: app.ValidPrefix,
		Long: `Lists the rules at paths that begin with PREFIX, if you have admin there.
"inherited" means that the rule above decides.`,
	}, func(ctx context.Context, args []string) (l lockapi.AccessRuleList, err error) {
		prefix = strings.Join(args, "")
		l.Rules, err = app.Collect(a.Admin.Access().Rules(ctx, prefix))
		return l, err
	}, func(l lockapi.AccessRuleList) {
		none := "you have admin at no rule"
		if prefix != "" {
			none += " with prefix " + format.Clean(prefix)
		}
		ui.List(a.UI, l.Rules, none, []ui.Column{ui.Path(), ui.Left("READ"), ui.Left("LOCK"), ui.Left("WRITE"), ui.Left("ADMIN")}, func(r lockapi.AccessRule) []string {
			return []string{format.Clean(r.Path), a.entriesCell(r.Read), a.entriesCell(r.Lock), a.entriesCell(r.Write), a.entriesCell(r.Admin)}
		})
	})
}

func (a *rules) entriesCell(list []string) string {
	if list == nil {
		return a.UI.Out.Faint(entries(nil, 0))
	}
	return entries(list, 3)
}

func (a *rules) showRule() app.Command {
	return app.Viewer(a.App, app.Command{
		Use: "show PATH", Short: "Show the rule at a path", SuggestFor: "get cat", Complete: completeRule(a.App), Exits: exit.Reads, Check: validRulePath,
		Long: `Shows the rule at PATH with all entries; / is the root. stout access check shows
what a caller may do there under all rules.`,
	}, func(ctx context.Context, args []string) (lockapi.AccessRule, error) {
		return a.Admin.Access().Rule(ctx, args[0])
	}, a.printRule)
}

func (a *rules) printRule(rule lockapi.AccessRule) {
	pairs := [][2]string{{"path", format.Clean(rule.Path)}}
	for _, p := range permissions {
		list := *listOf(&rule.AccessLists, p)
		pairs = append(pairs, [2]string{p, entries(list, len(list))})
	}
	a.UI.Pairs(pairs...)
}

func (a *rules) setRule() app.Command {
	return app.Command{
		Use: "set PATH [--read WHO] [--lock WHO] [--write WHO] ...", Short: "Set the permissions at a path",
		Long: `Sets the rule at PATH, which also applies below it; / is the root. WHO is
user:NAME, group:NAME, * for every authenticated user, or anonymous. Separate
several by commas, or repeat the flag. Each flag gives the whole list: "nobody"
is an empty list, and "inherit" lets the rule above decide. Permissions without
a flag stay as they are.

The command asks first if you would lose admin there; --yes skips the question.`,
		Example: `  stout access rules set /billing --read '*' --lock user:billing,group:ops
  stout access rules set /billing --write inherit`,
		Exits: exit.Changes, SuggestFor: "put add create edit", Complete: completeRule(a.App), Check: validRulePath, CompleteFlags: completeWho(permissions), Unlimited: true,
		Flags: func(f *pflag.FlagSet) {
			f.StringSlice("read", nil, "`who` may read files, locks and events")
			f.StringSlice("lock", nil, "`who` may take and wait for locks")
			f.StringSlice("write", nil, "`who` may write and delete files")
			f.StringSlice("admin", nil, "`who` may change rules and release others' locks")
			a.AddYes(f)
		},
		Run: func(ctx context.Context, args []string) error {
			at := args[0]
			lists, err := a.givenLists(permissions)
			if err == nil && len(lists) == 0 {
				err = exit.Usagef("nothing to set: give --read, --lock, --write or --admin")
			}
			if err != nil {
				return err
			}
			access := a.Admin.Access()
			return edit(ctx, a.App, func(ctx context.Context) (lockapi.AccessRule, error) {
				rule, err := access.Rule(ctx, at)
				if errors.Is(err, lockapi.CodeNotFound) {
					return lockapi.AccessRule{Path: at}, nil
				}
				return rule, err
			}, func(rule *lockapi.AccessRule) error {
				for p, list := range lists {
					*listOf(&rule.AccessLists, p) = list
				}
				if admins, changed := lists[lockapi.PermissionAdmin]; changed && !a.Options.Yes {
					return a.keepsAdmin(ctx, at, admins)
				}
				return nil
			}, func(ctx context.Context, rule lockapi.AccessRule) (lockapi.AccessRule, error) {
				return access.PutRule(ctx, at, rule.AccessLists)
			}, a.printRule)
		},
	}
}

// keepsAdmin asks if the caller has admin at a path by a rule and would lose
// it. Nil admins are inherited.
func (a *rules) keepsAdmin(ctx context.Context, at string, admins []string) error {
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	access := a.Admin.Access()
	now, err := access.Check(ctx, at, "")
	if err != nil || !now.Admin.Allowed || now.Admin.Rule == nil {
		return nil // nothing to lose, or the change itself reports the error
	}
	keeps := false
	if admins == nil && at != "/" {
		above, err := access.Check(ctx, path.Dir(at), "")
		keeps = err == nil && above.Admin.Allowed
	}
	if admins != nil {
		keeps = (&rulebook{access: access}).entryFor(ctx, admins, now.Principal) != ""
	}
	if keeps {
		return nil
	}
	return a.warnOfLoss(now.Principal, "have admin at "+format.Clean(at), "an operator of the cell")
}

// removeRule reads the rule first. The cell accepts the removal of a missing rule, but
// for a person that is a typing error.
func (a *rules) removeRule() app.Command {
	below := false
	return app.Command{
		Use: "remove PATH", Short: "Remove the rule at a path",
		Long: `Removes the rule at PATH: the rule above then decides. The command asks first if
you would lose admin there; --yes skips the question.

With --below it removes all rules below PATH in one step and keeps the one at
PATH. That needs admin at PATH and at each of them.`,
		Exits: exit.ChangeExits("removed", "there was no rule, or the cell refused"), SuggestFor: "rm delete del unset", Complete: completeRule(a.App), Check: validRulePath, Unlimited: true,
		Flags: func(f *pflag.FlagSet) {
			a.AddYes(f)
			f.BoolVar(&below, "below", false, "remove all rules below PATH instead")
		},
		Run: func(ctx context.Context, args []string) error {
			at := args[0]
			reading, cancel := a.WithTimeout(ctx)
			defer cancel()
			access := a.Admin.Access()
			if below {
				some, err := access.DeleteRulesBelow(reading, strings.TrimSuffix(at, "/")+"/")
				err = ui.Answer(a.UI, lockapi.RulesDeleted{Deleted: some}, err, func(lockapi.RulesDeleted) {
					if some {
						a.UI.Printf("removed the rules below %s\n", format.Clean(at))
					}
				})
				if err == nil && !some {
					return &exit.Failure{Code: exit.Failed, Message: "there is no rule below " + format.Clean(at), Quiet: true}
				}
				return err
			}
			rule, err := access.Rule(reading, at)
			if err == nil && rule.Admin != nil && !a.Options.Yes {
				err = a.keepsAdmin(ctx, at, nil)
			}
			if err != nil {
				return err
			}
			return remove(ctx, a.App, func(ctx context.Context) error { return access.DeleteRule(ctx, at) }, func() { a.UI.Printf("removed the rule at %s\n", format.Clean(at)) })
		},
	}
}

// Words for a whole list.
const (
	nobody    = "nobody"
	inherited = "inherit"
)

// edit reads something from the cell, changes it, writes it, and shows the
// result. change may ask a question, so --timeout limits only the calls.
func edit[T any](ctx context.Context, a *app.App, read func(context.Context) (T, error), change func(*T) error, write func(context.Context, T) (T, error), show func(T)) error {
	reading, cancel := a.WithTimeout(ctx)
	defer cancel()
	v, err := read(reading)
	if err != nil {
		return err
	}
	if err := change(&v); err != nil {
		return err
	}
	writing, cancel := a.WithTimeout(ctx)
	defer cancel()
	v, err = write(writing, v)
	return ui.Answer(a.UI, v, err, show)
}

// remove makes a call without an answer. With -o json it prints an empty
// object.
func remove(ctx context.Context, a *app.App, do func(context.Context) error, show func()) error {
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	return ui.Answer(a.UI, struct{}{}, do(ctx), func(struct{}) { show() })
}

// givenLists returns the lists of the flags that were given; a nil list is inherited.
func (a *rules) givenLists(flags []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, name := range flags {
		if !a.Given(name) {
			continue
		}
		words, err := a.Flags.GetStringSlice(name)
		if err == nil {
			out[name], err = parseList(name, words)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// completeWho returns completers for such flags.
func completeWho(names []string) map[string]app.Completer {
	out := map[string]app.Completer{}
	for _, name := range names {
		out[name] = app.Words("'*'", lockapi.PrincipalAnonymous, nobody)
	}
	return out
}

// parseList parses the list of a flag; a nil list is inherited.
func parseList(flag string, given []string) ([]string, error) {
	if len(given) == 0 {
		given = []string{""}
	}
	list := []string{}
	for _, word := range given {
		switch word = strings.TrimSpace(word); {
		case (word == nobody || word == inherited) && len(given) > 1:
			return nil, exit.Usagef("--%s: %q must be the only entry", flag, word)
		case word == inherited:
			return nil, nil
		case word == nobody:
		case word == "":
			return nil, exit.Usagef("--%s is empty or has an empty entry; use %q for an empty list", flag, nobody)
		case word != lockapi.AllPrincipals && word != lockapi.PrincipalAnonymous && !lockapi.IsMember(word):
			return nil, badPrincipal(word, "user:NAME, group:NAME, * or anonymous")
		default:
			list = append(list, word)
		}
	}
	if len(list) > lockapi.MaxAccessEntries {
		return nil, exit.Usagef("--%s has %d entries; at most %d are allowed: use groups", flag, len(list), lockapi.MaxAccessEntries)
	}
	return list, nil
}

// warnOfLoss asks before a caller gives up one of its own rights. others names
// the callers that could restore it.
func (a *rules) warnOfLoss(principal, right, others string) error {
	return a.Warn("you would no longer "+right,
		fmt.Sprintf("You are %s and would no longer %s. You could not undo that; %s could.", format.Clean(principal), right, others),
		"Continue?")
}

// entries formats the first entries of a list for one line.
func entries(list []string, most int) string {
	switch {
	case list == nil:
		return "inherited"
	case len(list) == 0:
		return "nobody"
	}
	var shown []string
	for _, e := range list[:min(len(list), most)] {
		shown = append(shown, format.Clean(e))
	}
	text := strings.Join(shown, ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

var permissions = []string{lockapi.PermissionRead, lockapi.PermissionLock, lockapi.PermissionWrite, lockapi.PermissionAdmin}

func listOf(lists *lockapi.AccessLists, permission string) *[]string {
	switch permission {
	case lockapi.PermissionRead:
		return &lists.Read
	case lockapi.PermissionLock:
		return &lists.Lock
	case lockapi.PermissionWrite:
		return &lists.Write
	}
	return &lists.Admin
}

// validRulePath is app.ValidPath for the path of a rule, which may be the root.
func validRulePath(path string) error {
	if path == "/" {
		return nil
	}
	return app.ValidPath(path)
}

const cellHelp = `Shows the principals that observe the cell (its state, sessions, members and
metrics) and those with the right to operate it, that is, to do everything
without a rule. user:root always operates the cell.`

func (a *rules) cellAccess() app.Command {
	show := app.Viewer(a.App, app.Command{Use: "show", Short: "Show the observers and operators of the cell", Long: cellHelp, Exits: exit.Reads, SuggestFor: "get list"},
		func(ctx context.Context, _ []string) (lockapi.CellAccess, error) {
			return a.Admin.Access().Cell(ctx)
		}, a.printCellAccess)
	return app.Command{
		Use: "cell", Short: "Show and set the observers and operators of the cell", SuggestFor: "operators observers operate observe",
		First: true, Sub: []app.Command{show, a.setCellAccess()},
	}
}

func (a *rules) printCellAccess(lists lockapi.CellAccess) {
	withRoot := func(list []string) string {
		list = append([]string{lockapi.PrincipalRoot}, list...)
		return entries(list, len(list))
	}
	a.UI.Pairs([2]string{"observe", withRoot(lists.Observe)}, [2]string{"operate", withRoot(lists.Operate)})
}

var cellRights = []string{"observe", "operate"}

func (a *rules) setCellAccess() app.Command {
	return app.Command{
		Run: a.writeCellAccess,
		Use: "set [--observe WHO] [--operate WHO]", Short: "Set the observers and operators of the cell",
		Long: `Sets the observers and the operators of the cell. WHO is user:NAME, group:NAME,
* for every authenticated user, or anonymous, separated by commas; "nobody" is
an empty list. A list that is not given stays as it is.

The command asks first if you would no longer operate the cell; --yes skips the
question.`,
		Example: `  stout access cell set --observe '*' --operate group:ops`,
		Exits:   exit.Changes, CompleteFlags: completeWho(cellRights), Unlimited: true,
		Flags: func(f *pflag.FlagSet) {
			f.StringSlice("observe", nil, "`who` may see the cell's state, sessions, members and metrics")
			f.StringSlice("operate", nil, "`who` may do everything")
			a.AddYes(f)
		},
	}
}

func (a *rules) writeCellAccess(ctx context.Context, _ []string) error {
	given, err := a.givenLists(cellRights)
	if err == nil && len(given) == 0 {
		err = exit.Usagef("nothing to set: give --observe or --operate")
	}
	for name, list := range given {
		if list == nil {
			err = exit.Usagef("--%s: the cell has no parent to inherit from", name)
		}
	}
	if err != nil {
		return err
	}
	access := a.Admin.Access()
	return edit(ctx, a.App, access.Cell, func(lists *lockapi.CellAccess) error {
		now := lists.Operate
		if list, ok := given["observe"]; ok {
			lists.Observe = list
		}
		list, ok := given["operate"]
		if !ok {
			return nil
		}
		lists.Operate = list
		return a.keepsOperating(ctx, now, list)
	}, access.PutCell, a.printCellAccess)
}

// keepsOperating asks if the caller operates the cell now and would lose that.
func (a *rules) keepsOperating(ctx context.Context, now, then []string) error {
	if a.Options.Yes {
		return nil
	}
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	me, err := a.Admin.Access().WhoAmI(ctx)
	if err != nil || me.Principal == lockapi.PrincipalRoot {
		return nil // root always operates the cell
	}
	book := &rulebook{access: a.Admin.Access()}
	if book.entryFor(ctx, now, me.Principal) == "" || book.entryFor(ctx, then, me.Principal) != "" {
		return nil
	}
	return a.warnOfLoss(me.Principal, "operate the cell", "the holder of a token of "+lockapi.PrincipalRoot)
}

func completeRule(a *app.App) app.Completer {
	return app.Offers(a, func(ctx context.Context, typed string) iter.Seq2[lockapi.AccessRule, error] {
		return a.Admin.Access().Rules(ctx, typed)
	}, func(r lockapi.AccessRule) (string, string) { return r.Path, "a rule" })
}
