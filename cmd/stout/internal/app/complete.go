package app

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// completeTimeout limits the wait after the Tab key, and completeMost the
// number of words. If the cell does not answer in time, there is no completion.
const (
	completeTimeout = time.Second
	completeMost    = 100
)

// Completer completes an argument or a flag.
type Completer = cobra.CompletionFunc

type completion = cobra.Completion

// offer adds a word from the cell with its description. Callers of the cell
// chose the word. The shell inserts the common prefix of several words without
// quotes and evaluates the line at the next Tab, so a path with a backtick
// would run a command. Therefore only words are offered that every shell takes
// literally. Descriptions, which shells split and compare, are restricted in
// the same way.
func offer(found []completion, word, description string) []completion {
	if !format.IsLiteral(word) {
		return found
	}
	return append(found, cobra.CompletionWithDesc(word, format.LiteralText(description)))
}

// firstOnly completes the first argument, and the others as directed.
func firstOnly(words Completer, others cobra.ShellCompDirective) Completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, others
		}
		return words(cmd, args, typed)
	}
}

// ThenFiles completes the first argument, and leaves the others to the shell.
func ThenFiles(words Completer) Completer { return firstOnly(words, cobra.ShellCompDirectiveDefault) }

// Offers completes from a list that the cell returns. It creates the client,
// because cobra calls completers without prepare. word returns an item's word
// and description.
func Offers[T any](a *App, list func(ctx context.Context, typed string) iter.Seq2[T, error], word func(T) (string, string)) Completer {
	return func(cmd *cobra.Command, _ []string, typed string) (found []completion, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		directive := cobra.ShellCompDirectiveNoFileComp
		if a.certificates(ctx) != nil || a.credential() != nil || a.connect() != nil {
			return nil, directive
		}
		for item, err := range list(ctx, typed) {
			if err != nil || len(found) == completeMost {
				break
			}
			if w, what := word(item); strings.HasPrefix(w, typed) {
				found = offer(found, w, what)
				if len(w) > 1 && strings.HasSuffix(w, "/") { // a directory: the path continues
					directive |= cobra.ShellCompDirectiveNoSpace
				}
			}
		}
		return found, directive
	}
}

// Listed turns a complete list into a sequence.
func Listed[T any](items []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
		if err != nil {
			yield(*new(T), err)
		}
	}
}

// CompletePath completes the path of a lock.
func (a *App) CompletePath() Completer {
	return Offers(a, func(ctx context.Context, typed string) iter.Seq2[lockapi.Lock, error] {
		return a.Client.ListLocks(ctx, typed)
	}, func(l lockapi.Lock) (string, string) { return l.Path, l.State })
}

// CompleteFile completes a file's path, one directory at a time.
func (a *App) CompleteFile() Completer {
	return Offers(a, func(ctx context.Context, typed string) iter.Seq2[client.DirEntry, error] {
		if typed == "" {
			typed = "/"
		}
		return a.Client.ReadDir(ctx, typed)
	}, func(e client.DirEntry) (string, string) {
		if e.File == nil {
			return e.Path, "directory"
		}
		return e.Path, format.Plural(e.File.Size, "byte")
	})
}

// CompleteSession completes the id of a session.
func (a *App) CompleteSession() Completer {
	return Offers(a, func(ctx context.Context, _ string) iter.Seq2[lockapi.SessionState, error] {
		return a.Admin.ListSessions(ctx)
	}, func(s lockapi.SessionState) (string, string) {
		return s.ID, fmt.Sprintf("%s holds %d", s.Name, len(s.Holds))
	})
}

// CompleteReplica completes the id of a replica.
func (a *App) CompleteReplica() Completer {
	return Offers(a, func(ctx context.Context, _ string) iter.Seq2[lockapi.Replica, error] {
		return a.replicas(ctx)
	}, func(r lockapi.Replica) (string, string) { return r.ID, r.Role })
}

func (a *App) replicas(ctx context.Context) iter.Seq2[lockapi.Replica, error] {
	cell, err := a.Collector().Collect(ctx, completeTimeout)
	return Listed(cell.Replicas, err)
}

// Words completes from a fixed list.
func Words(words ...string) Completer {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}
