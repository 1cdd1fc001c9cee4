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

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

// watchEvents is stout watch.
type watchEvents struct {
	*app
	after   uint64
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

func (c *watchEvents) command() command {
	return command{
		use: "watch [PATH]...", short: "Show what happens to files and locks, as it happens", like: "events follow tail subscribe wait",
		long: `Shows each change of the files and locks at the PATHs, or below those that end
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
10s later.`,
		exits: reads, words: c.completeFile(), all: true, endless: true,
		example: `  stout watch /app/ /db/primary
  stout watch /app/conf --exec 'stout get /app/conf > app.conf && ./reload'
  stout watch --after 57 --type file_deleted -o json`,
		flags: func(f *pflag.FlagSet) {
			f.Uint64Var(&c.after, "after", 0, "begin after this `revision` (default: from now on)")
			f.StringSliceVar(&c.types, "type", nil, "only events of these `types`, separated by commas")
			f.BoolVar(&c.content, "content", false, "with -o json: the content of a changed file, where it is there still")
			f.StringVar(&c.exec, "exec", "", "run this `command` for each, instead of showing it")
			f.IntVarP(&c.count, "count", "n", 0, "end after so many `events` (default: never)")
		},
		values: map[string]completer{"type": fixed(eventTypes...)},
	}
}

func (c *watchEvents) run(ctx context.Context, args []string) error {
	c.paths = args
	if c.count < 0 {
		return usagef("--count is %d; it must not be negative", c.count)
	}
	filters, err := c.filters()
	if err != nil {
		return err
	}
	if c.exec == "" {
		return c.watch(ctx, filters)
	}
	signals, stop := child.Signals()
	defer stop()
	c.signals = make(chan os.Signal, 1)
	_, err = unlessSignalled(ctx, signals, c.signals, func(ctx context.Context) (any, error) { return nil, c.watch(ctx, filters) })
	return err
}

// filters are what the arguments ask for.
func (c *watchEvents) filters() ([]client.Filter, error) {
	var out []client.Filter
	for _, path := range c.paths {
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
	for _, t := range c.types {
		if !slices.Contains(eventTypes, t) {
			return nil, usagef("--type is %q; the types are %s", t, strings.Join(eventTypes, ", "))
		}
		out = append(out, client.OfType(lockapi.EventType(t)))
	}
	if c.content {
		out = append(out, client.EventContents())
	}
	return out, nil
}

// wants says whether an event was asked for. The cell tells changes of master
// whatever is asked; who names a path, or types, has not asked for them.
func (c *watchEvents) wants(e *client.Event) bool {
	return e.Type != lockapi.EventMasterChanged || slices.Contains(c.types, string(e.Type)) ||
		len(c.paths) == 0 && len(c.types) == 0
}

func (c *watchEvents) watch(ctx context.Context, filters []client.Filter) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	n := 0
	for e, err := range c.client.Watch(ctx, c.after, filters...) {
		if err != nil {
			return err
		}
		if !c.wants(&e) {
			continue
		}
		if err := c.showEvent(ctx, &e); err != nil {
			return err
		}
		if n++; n == c.count {
			return nil
		}
	}
	return nil
}

// begin finds out after which revision to begin, or makes sure that there is a replica
// to watch. Once there was one, a watch waits for as long as it takes.
func (c *watchEvents) begin(ctx context.Context) (err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if c.given("after") {
		if _, err = c.client.Cell(ctx); errors.Is(err, client.ErrPermissionDenied) { // to see the cell; a replica answers
			err = nil
		}
		return err
	}
	if c.after, err = c.client.Revision(ctx); err == nil {
		c.ui.note("watching from now on, after revision %d", c.after)
	}
	return err
}

// showEvent shows an event, or has a command deal with it.
func (c *watchEvents) showEvent(ctx context.Context, e *client.Event) error {
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
	case c.exec != "":
		return c.react(ctx, kind, e.Path, revision, append(raw, '\n'))
	case c.ui.json:
		c.ui.printf("%s\n", safetext.JSON(string(raw)))
	case e.Compacted != nil:
		c.ui.note("changes are not kept that long; it goes on after revision %d", revision)
	default:
		c.ui.printf("%-8d  %-14s  %s\n", revision, clean(kind), strings.Join(eventWords(&e.CellEvent), "  "))
	}
	return nil
}

// react runs a command of the shell for an event. That it fails is noted; only
// that there is no shell to run it ends the watch, or that ctx ends it.
func (c *watchEvents) react(ctx context.Context, kind, path string, revision uint64, event []byte) error {
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
	result, err := c.runCommand(child.Command{
		Args: shell(c.exec), Stdin: in, Spares: true,
		Env:     append(c.cellEnvironment(), "STOUT_EVENT="+kind, "STOUT_PATH="+path, fmt.Sprintf("STOUT_REVISION=%d", revision)),
		Margins: child.Margins{Term: lastSteps, Kill: lastSteps}, Revoked: ctx.Done(), Signals: c.signals,
	}, make(unbounded), func(e child.Event) string {
		return happened(e, c.exec, "the watch ends", "no change is seen")
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case result.Code == exitOK || result.Interrupted:
		return err
	}
	c.ui.note("the command for revision %d: exit status %d", revision, result.Code)
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
