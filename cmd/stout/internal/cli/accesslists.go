package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/lockapi"
)

// Words for a whole list.
const (
	nobody    = "nobody"
	inherited = "inherit"
)

// edit reads something from the cell, changes it, writes it, and shows the
// result. change may ask a question, so --timeout limits only the calls.
func edit[T any](ctx context.Context, a *app, read func(context.Context) (T, error), change func(*T) error, write func(context.Context, T) (T, error), show func(T)) error {
	reading, cancel := a.bounded(ctx)
	defer cancel()
	v, err := read(reading)
	if err != nil {
		return err
	}
	if err := change(&v); err != nil {
		return err
	}
	writing, cancel := a.bounded(ctx)
	defer cancel()
	v, err = write(writing, v)
	return answer(a.ui, v, err, show)
}

// remove makes a call without an answer. With -o json it prints an empty
// object.
func (a *app) remove(ctx context.Context, do func(context.Context) error, format string, args ...any) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return answer(a.ui, struct{}{}, do(ctx), func(struct{}) { a.ui.printf(format, args...) })
}

// whoFlags are flags that each give a whole list.
type whoFlags map[string]*[]string

func (w whoFlags) bind(flags *pflag.FlagSet, name, usage string) {
	w[name] = new([]string)
	flags.StringSliceVar(w[name], name, nil, usage)
}

// lists returns the flags that were given; a nil list is inherited.
func (w whoFlags) lists(a *app) (map[string][]string, error) {
	out := map[string][]string{}
	for name, words := range w {
		if !a.given(name) {
			continue
		}
		list, err := parseList(name, *words)
		if err != nil {
			return nil, err
		}
		out[name] = list
	}
	return out, nil
}

// completeWho returns completers for these flags.
func completeWho(names ...string) map[string]completer {
	out := map[string]completer{}
	for _, name := range names {
		out[name] = fixed("'*'", lockapi.PrincipalAnonymous, nobody)
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
			return nil, usagef("--%s: %q must be the only entry", flag, word)
		case word == inherited:
			return nil, nil
		case word == nobody:
		case word == "":
			return nil, usagef("--%s is empty or has an empty entry; use %q for an empty list", flag, nobody)
		case word != lockapi.AllPrincipals && word != lockapi.PrincipalAnonymous && !lockapi.IsMember(word):
			return nil, badPrincipal(word, "user:NAME, group:NAME, * or anonymous")
		default:
			list = append(list, word)
		}
	}
	if len(list) > lockapi.MaxAccessEntries {
		return nil, usagef("--%s has %d entries; at most %d are allowed: use groups", flag, len(list), lockapi.MaxAccessEntries)
	}
	return list, nil
}

func addYes(flags *pflag.FlagSet, yes *bool) {
	flags.BoolVarP(yes, "yes", "y", false, "skip the question")
}

// warnOfLoss asks before a caller gives up one of its own rights. others names
// the callers that could restore it.
func (a *app) warnOfLoss(principal, right, others string) error {
	return a.warn(false, "you would no longer "+right,
		fmt.Sprintf("You are %s and would no longer %s. You could not undo that; %s could.", clean(principal), right, others),
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
		shown = append(shown, clean(e))
	}
	text := strings.Join(shown, ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Rules.

var permissions = []string{lockapi.PermissionRead, lockapi.PermissionLock, lockapi.PermissionWrite, lockapi.PermissionAdmin}

// listOf returns the list of a permission.
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

// validRulePath is validPath for the path of a rule, which may be the root.
func validRulePath(path string) error {
	if path == "/" {
		return nil
	}
	return validPath(path)
}
