package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeTimeout bounds how long a person waits for the Tab key, and
// completeMost how many answers are worth showing. Where the cell does not answer
// in time, nothing is offered.
const (
	completeTimeout = time.Second
	completeMost    = 100
)

type completion = cobra.Completion

// completing makes the client, which prepare has not done: cobra calls the
// completers without it.
func (a *app) completing(cmd *cobra.Command) (context.Context, context.CancelFunc, bool) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	return ctx, cancel, a.connect() == nil
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
		found = append(found, cobra.CompletionWithDesc(lock.Path, lock.State))
	}
	return found, cobra.ShellCompDirectiveNoFileComp
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
			found = append(found, cobra.CompletionWithDesc(s.ID, fmt.Sprintf("%s, holds %d", clean(s.Name), len(s.Holds))))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeReplica completes a replica's id.
func (a *app) completeReplica(cmd *cobra.Command, _ []string, typed string) ([]completion, cobra.ShellCompDirective) {
	ctx, cancel, ok := a.completing(cmd)
	defer cancel()
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cell, err := a.client.Cell(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []completion
	for _, r := range cell.Replicas {
		if strings.HasPrefix(r.ID, typed) {
			found = append(found, cobra.CompletionWithDesc(r.ID, r.Role))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
