package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

// watchFlags are what stout watch was asked to do.
type watchFlags struct {
	after   uint64
	given   bool // after was
	paths   []string
	types   []string
	content bool
	exec    string
	count   int
	signals chan os.Signal // for the command of exec that runs
}

var eventTypes = []string{
	string(lockapi.EventFileCreated), string(lockapi.EventFileChanged), string(lockapi.EventFileDeleted),
	string(lockapi.EventLockAcquired), string(lockapi.EventLockReleased), string(lockapi.EventLockContended),
	string(lockapi.EventMasterChanged),
}

func (a *app) watchCommand() *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch [PATH]...",
		Short: "Show what happens to files and locks, as it happens",
		Long: `Shows each change of the files and locks at the PATHs, or below those that end
in a slash, as a line, until Ctrl-C: from now on, or after the revision that
--after names. Without a PATH it shows all, changes of master as well. With -o
json each is a line of JSON, as in the HTTP API.

It goes on by itself when replicas fail: no change is missed, none shown twice.
Where changes are not kept any more it says so, as an event compacted, and goes
on with those that are.

With --exec CMD is run by the shell for each, one after another, with the event
as JSON on its standard input, and STOUT_EVENT (its type), STOUT_PATH,
STOUT_REVISION and STOUT_SERVER in its environment. A CMD that fails ends
nothing. A signal that ends stout ends CMD before: with a SIGTERM, and a SIGKILL
10s later.

` + exitHelp,
		Example: `  stout watch /app/ /db/primary
  stout watch /app/conf --exec 'stout get /app/conf > app.conf && ./reload'
  stout watch --after 57 --type file_deleted -o json`,
		SuggestFor:        []string{"events", "follow", "tail", "subscribe", "wait"},
		ValidArgsFunction: a.completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.given, f.paths = cmd.Flags().Changed("after"), args
			if f.count < 0 {
				return usagef("--count is %d; it must not be negative", f.count)
			}
			filters, err := f.filters()
			if err != nil {
				return err
			}
			if f.exec == "" {
				return a.watch(cmd.Context(), &f, filters)
			}
			signals, stop := child.Signals()
			defer stop()
			f.signals = make(chan os.Signal, 1)
			_, err = unlessSignalled(cmd.Context(), signals, f.signals, func(ctx context.Context) (any, error) {
				return nil, a.watch(ctx, &f, filters)
			})
			return err
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.after, "after", 0, "begin after this `revision` (default: from now on)")
	flags.StringSliceVar(&f.types, "type", nil, "only events of these `types`, separated by commas")
	flags.BoolVar(&f.content, "content", false, "with -o json: the content of a changed file, where it is there still")
	flags.StringVar(&f.exec, "exec", "", "run this `command` for each, instead of showing it")
	flags.IntVarP(&f.count, "count", "n", 0, "end after so many `events` (default: never)")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(eventTypes, cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"after", "exec", "count"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// filters are what the arguments ask for.
func (f *watchFlags) filters() ([]client.Filter, error) {
	var out []client.Filter
	for _, path := range f.paths {
		if path == "" {
			return nil, usagef("a PATH is empty; / stands for all")
		}
		if err := validPrefix(path); err != nil {
			return nil, err
		}
		if strings.HasSuffix(path, "/") {
			out = append(out, client.OnPrefix(path))
		} else {
			out = append(out, client.OnPath(path))
		}
	}
	for _, t := range f.types {
		if !slices.Contains(eventTypes, t) {
			return nil, usagef("--type is %q; the types are %s", t, strings.Join(eventTypes, ", "))
		}
		out = append(out, client.OfType(lockapi.EventType(t)))
	}
	if f.content {
		out = append(out, client.EventContents())
	}
	return out, nil
}

// wants says whether an event was asked for. The cell tells changes of master
// whatever is asked; who names a path, or types, has not asked for them.
func (f *watchFlags) wants(e *client.Event) bool {
	return e.Type != lockapi.EventMasterChanged || slices.Contains(f.types, string(e.Type)) ||
		len(f.paths) == 0 && len(f.types) == 0
}

func (a *app) watch(ctx context.Context, f *watchFlags, filters []client.Filter) error {
	if !f.given {
		var err error
		if f.after, err = a.revision(ctx); err != nil {
			return err
		}
		a.ui.note("watching from now on, after revision %d", f.after)
	} else if err := a.reach(ctx); err != nil {
		return err
	}
	n := 0
	for e, err := range a.client.Watch(ctx, f.after, filters...) {
		if err != nil {
			return err
		}
		if !f.wants(&e) {
			continue
		}
		if err := a.showEvent(ctx, f, &e); err != nil {
			return err
		}
		if n++; n == f.count {
			return nil
		}
	}
	return nil
}

// reach makes sure that there is a replica to watch. Once there was one a watch
// waits for as long as it takes.
func (a *app) reach(ctx context.Context) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	_, err := a.client.Cell(ctx)
	if errors.Is(err, client.ErrPermissionDenied) { // to see the cell; a replica answers
		return nil
	}
	return err
}

// revision is the cell's present one.
func (a *app) revision(ctx context.Context) (uint64, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return a.client.Revision(ctx)
}

// showEvent shows an event, or has a command deal with it.
func (a *app) showEvent(ctx context.Context, f *watchFlags, e *client.Event) error {
	kind, revision := string(e.Type), e.Revision
	raw, err := json.Marshal(e.CellEvent)
	if e.Compacted != nil {
		kind, revision = lockapi.StreamCompacted, e.Compacted.Revision
		raw, err = json.Marshal(struct {
			Type string `json:"type"`
			*lockapi.Compacted
		}{kind, e.Compacted})
	}
	switch {
	case err != nil:
		return err
	case f.exec != "":
		return a.react(ctx, f, kind, e.Path, revision, append(raw, '\n'))
	case a.ui.json:
		a.ui.printf("%s\n", safetext.JSON(string(raw)))
	case e.Compacted != nil:
		a.ui.note("changes are not kept that long; it goes on after revision %d", revision)
	default:
		a.ui.printf("%-8d  %-14s  %s\n", revision, clean(kind), strings.Join(eventWords(&e.CellEvent), "  "))
	}
	return nil
}

// react runs a command of the shell for an event. That it fails is noted; only
// that there is no shell to run it ends the watch, or that ctx ends it.
func (a *app) react(ctx context.Context, f *watchFlags, kind, path string, revision uint64, event []byte) error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer out.Close() // which ends a write that nobody reads
	go func() {
		_, _ = out.Write(event)
		_ = out.Close()
	}()
	result, err := a.command(child.Command{
		Args: shell(f.exec), Stdin: in, Spares: true,
		Env:     append(a.cellEnvironment(), "STOUT_EVENT="+kind, "STOUT_PATH="+path, fmt.Sprintf("STOUT_REVISION=%d", revision)),
		Margins: child.Margins{Term: lastSteps, Kill: lastSteps}, Revoked: ctx.Done(), Signals: f.signals,
	}, make(unbounded), func(e child.Event) string {
		return happened(e, f.exec, "the watch ends", "no change is seen")
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case result.Code == exitOK || result.Interrupted:
		return err
	}
	a.ui.note("the command for revision %d: exit status %d", revision, result.Code)
	return nil
}

// eventWords are what there is to say of an event.
func eventWords(e *lockapi.CellEvent) []string {
	var words []string
	if e.Path != "" {
		words = append(words, clean(e.Path))
	}
	switch {
	case e.File != nil && e.Type != lockapi.EventFileDeleted:
		words = append(words, plural(e.File.Size, "byte"))
	case e.Hold != nil && e.Hold.Token != 0:
		words = append(words, clean(e.Hold.SessionName), fmt.Sprintf("token %d", e.Hold.Token))
	case e.Hold != nil:
		words = append(words, clean(e.Hold.SessionName))
	case e.Master != nil:
		words = append(words, clean(e.Master.Master), fmt.Sprintf("epoch %d", e.Master.Epoch))
	}
	if e.Reason != "" {
		words = append(words, clean(e.Reason))
	}
	return words
}

// shell is how the system's shell runs a command.
func shell(command string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/C", command}
	}
	return []string{"/bin/sh", "-c", command}
}
