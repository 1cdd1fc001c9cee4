package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/lockapi"
)

// completeTimeout bounds how long a person waits for the Tab key, and
// completeMost how many answers are worth showing. Where the cell does not
// answer in time, nothing is offered.
const (
	completeTimeout = time.Second
	completeMost    = 100
)

type completion = cobra.Completion

// offer adds a word that came from the cell, and what it is, to what is
// offered. Others chose the word. The shell inserts what several offers have in
// common as it is, without quotes, and evaluates the line at the next Tab: a
// path with a backtick would be a command that the Tab key runs. So only words
// are offered that every shell reads as themselves, and the descriptions beside
// them, which shells cut up and compare, have no special characters either.
func offer(found []completion, word, description string) []completion {
	if !plainWord(word) {
		return found
	}
	return append(found, cobra.CompletionWithDesc(word, plainText(description)))
}

// plainWord says whether bash, zsh, fish and PowerShell all read s as itself:
// no quotes, blanks, globs, substitutions or operators, and no sign at its head
// that makes it a flag, a variable or a job. ":" and "=" end words for bash,
// and "," does for PowerShell. Letters beyond ASCII depend on the locale: some
// shells take a byte of them for a blank.
func plainWord(s string) bool {
	return s != "" && (s[0] == '/' || isAlphanumeric(rune(s[0]))) && !strings.ContainsFunc(s, special)
}

// plainText is s with a question mark in place of all that is special.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if special(r) && r != ' ' {
			return '?'
		}
		return r
	}, s)
}

func special(r rune) bool { return !isAlphanumeric(r) && !strings.ContainsRune("/._-+@", r) }

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}

// completing makes the client, which prepare has not done: cobra calls the
// completers without it.
func (a *app) completing(cmd *cobra.Command) (context.Context, context.CancelFunc, bool) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	return ctx, cancel, a.certificates(ctx) == nil && a.credential() == nil && a.connect() == nil
}

// completeRule completes the path of a rule, as the first argument.
func (a *app) completeRule(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
	ctx, cancel, ok := a.completing(cmd)
	defer cancel()
	if len(args) > 0 || !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []completion
	for rule, err := range a.client.Access().Rules(ctx, typed) {
		if err != nil || len(found) == completeMost {
			break
		}
		found = offer(found, rule.Path, "a rule")
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeGroup completes the name of a group, as the first argument.
func (a *app) completeGroup(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
	ctx, cancel, ok := a.completing(cmd)
	defer cancel()
	if len(args) > 0 || !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []completion
	groups, _ := a.client.Access().Groups(ctx)
	for _, g := range groups {
		if strings.HasPrefix(g.Name, typed) && len(found) < completeMost {
			found = offer(found, g.Name, plural(len(g.Members), "member"))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeToken completes the ids of tokens.
func (a *app) completeToken(cmd *cobra.Command, _ []string, typed string) ([]completion, cobra.ShellCompDirective) {
	ctx, cancel, ok := a.completing(cmd)
	defer cancel()
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []completion
	for t, err := range a.client.Access().Tokens(ctx) {
		if err != nil || len(found) == completeMost {
			break
		}
		if strings.HasPrefix(t.ID, typed) {
			found = offer(found, t.ID, strings.TrimSpace(strings.TrimPrefix(t.Principal, lockapi.PrefixUser)+" "+t.Note))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeLock completes stout lock: the path, and behind it the command and
// its arguments, which the shell completes as files.
func (a *app) completeLock(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completePath(cmd, args, typed)
}

// completePath completes a lock's path, as the first argument.
func (a *app) completePath(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
	ctx, cancel, ok := a.completing(cmd)
	defer cancel()
	if len(args) > 0 || !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []completion
	for lock, err := range a.client.ListLocks(ctx, typed) {
		if err != nil || len(found) == completeMost {
			break
		}
		found = offer(found, lock.Path, lock.State)
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completePut completes stout put: the path, and behind it what the shell
// completes as files.
func (a *app) completePut(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeFile(cmd, args, typed)
}

// completeFile completes a file's path, a directory at a time, as the first
// argument.
func (a *app) completeFile(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Flags().Lookup("after") == nil { // stout watch takes several
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel, ok := a.completing(cmd)
	defer cancel()
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if typed == "" {
		typed = "/"
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	var found []completion
	for e, err := range a.client.ReadDir(ctx, typed) {
		switch {
		case err != nil || len(found) == completeMost:
			return found, directive
		case e.File == nil:
			found, directive = offer(found, e.Path, "directory"), directive|cobra.ShellCompDirectiveNoSpace
		default:
			found = offer(found, e.Path, plural(e.File.Size, "byte"))
		}
	}
	return found, directive
}

// completeSession completes a session's id, as the first argument or a flag.
func (a *app) completeSession(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
	ctx, cancel, ok := a.completing(cmd)
	defer cancel()
	if !ok || (len(args) > 0 && cmd.Flags().Lookup("session") == nil) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []completion
	for s, err := range a.client.ListSessions(ctx) {
		if err != nil || len(found) == completeMost {
			break
		}
		if strings.HasPrefix(s.ID, typed) {
			found = offer(found, s.ID, fmt.Sprintf("%s holds %d", s.Name, len(s.Holds)))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeReplica completes a replica's id, as the first argument or a flag.
func (a *app) completeReplica(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
	ctx, cancel, ok := a.completing(cmd)
	defer cancel()
	if len(args) > 0 || !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.replicaIDs(ctx, typed), cobra.ShellCompDirectiveNoFileComp
}

// replicaIDs are the replicas' ids that begin so.
func (a *app) replicaIDs(ctx context.Context, typed string) (found []completion) {
	cell, err := a.survey(ctx, completeTimeout)
	if err != nil {
		return nil
	}
	for _, r := range cell.Replicas {
		if strings.HasPrefix(r.ID, typed) {
			found = offer(found, r.ID, r.Role)
		}
	}
	return found
}
