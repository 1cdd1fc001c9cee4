package files

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
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

type watchEvents struct {
	*app.App
	after   uint64
	paths   []string
	types   []string
	known   []string // types of events
	content bool
	exec    string
	count   int
	signals chan os.Signal // for the running command of --exec
}

func (c *watchEvents) command() app.Command {
	for _, t := range lockapi.EventTypes() {
		c.known = append(c.known, string(t))
	}
	return app.Command{
		Run: c.run,
		Use: "watch [PATH]...", Short: "Show changes of files and locks as they happen", SuggestFor: "events follow tail subscribe wait",
		Long: `Shows each change of the files and locks at the PATHs, one line per change,
until Ctrl-C. A PATH that ends in a slash covers everything below it. Without a
PATH, all changes are shown, including changes of master. The watch begins now,
or after the revision named by --after. With -o json, each change is a line of
JSON as in the HTTP API.

The watch continues when replicas fail: no change is missed or shown twice. If
the cell no longer keeps the changes that come next, stout reports that (as an
event compacted with -o json and --exec) and continues with the kept ones.

With --exec, the shell runs CMD for each change, one after another. CMD gets the
event as JSON on standard input, and STOUT_EVENT (its type), STOUT_PATH,
STOUT_REVISION and STOUT_SERVER in its environment. The watch continues if CMD
fails. A signal that ends stout first ends CMD, with a SIGTERM and, 10s later, a
SIGKILL.`,
		Exits: exit.Reads, Complete: c.CompleteFile(), CompleteAll: true, Unlimited: true,
		Example: `  stout watch /app/ /db/primary
  stout watch /app/conf --exec 'stout get /app/conf > app.conf && ./reload'
  stout watch --after 57 --type file_deleted -o json`,
		Flags: func(f *pflag.FlagSet) {
			f.Uint64Var(&c.after, "after", 0, "begin after this `revision` (default: begin now)")
			f.StringSliceVar(&c.types, "type", nil, "show only events of these `types`, separated by commas")
			f.BoolVar(&c.content, "content", false, "with -o json: include the content of changed files that still exist")
			f.StringVar(&c.exec, "exec", "", "run this `command` for each event instead of showing it")
			f.IntVarP(&c.count, "count", "n", 0, "end after this number of `events` (default: never)")
		},
		CompleteFlags: map[string]app.Completer{"type": app.Words(c.known...)},
	}
}

func (c *watchEvents) run(ctx context.Context, args []string) error {
	c.paths = args
	if c.count < 0 {
		return exit.Usagef("--count is %d; it must not be negative", c.count)
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
	_, err = app.CancelOnSignal(ctx, signals, c.signals, func(ctx context.Context) (any, error) { return nil, c.watch(ctx, filters) })
	return err
}

func (c *watchEvents) filters() ([]client.Filter, error) {
	var out []client.Filter
	for _, path := range c.paths {
		if path == "" {
			return nil, exit.Usagef("a PATH is empty; / means all")
		}
		if err := app.ValidPrefix(path); err != nil {
			return nil, err
		}
		if strings.HasSuffix(path, "/") {
			out = append(out, client.OnPrefix(path))
		} else {
			out = append(out, client.OnPath(path))
		}
	}
	for _, t := range c.types {
		if !slices.Contains(c.known, t) {
			return nil, exit.Usagef("--type is %q; the types are %s", t, strings.Join(c.known, ", "))
		}
		out = append(out, client.OfType(lockapi.EventType(t)))
	}
	if c.content {
		out = append(out, client.EventContents())
	}
	return out, nil
}

// wants reports whether an event was asked for. The cell always sends changes
// of master, but a watch of paths or types did not ask for them.
func (c *watchEvents) wants(e *client.Event) bool {
	return e.Type != lockapi.EventMasterChanged || slices.Contains(c.types, string(e.Type)) ||
		len(c.paths) == 0 && len(c.types) == 0
}

func (c *watchEvents) watch(ctx context.Context, filters []client.Filter) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	n := 0
	for e, err := range c.Client.Watch(ctx, c.after, filters...) {
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

// begin finds the revision to begin after, or checks that a replica answers.
// After that, the watch waits as long as it takes.
func (c *watchEvents) begin(ctx context.Context) (err error) {
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	if c.Given("after") {
		if _, err = c.Admin.Cell(ctx); errors.Is(err, client.ErrPermissionDenied) { // to observe the cell; a replica answers
			err = nil
		}
		return err
	}
	if c.after, err = c.Client.Revision(ctx); err == nil {
		c.UI.Note("watching changes after revision %d", c.after)
	}
	return err
}

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
	case c.UI.JSON:
		c.UI.Printf("%s\n", safetext.JSON(string(raw)))
	case e.Compacted != nil:
		c.UI.Note("changes are missing: the cell does not have all since the last one shown; continuing after revision %d", revision)
	default:
		c.UI.Printf("%-8d  %-14s  %s\n", revision, format.Clean(kind), strings.Join(eventWords(&e.CellEvent), "  "))
	}
	return nil
}

// react runs the command for an event in the shell. A failure is only noted.
// The watch ends if there is no shell or ctx ends.
func (c *watchEvents) react(ctx context.Context, kind, path string, revision uint64, event []byte) error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer out.Close() // ends a write without a reader
	go func() {
		_, _ = out.Write(event)
		_ = out.Close()
	}()
	result, err := c.RunCommand(child.Command{
		Args: shell(c.exec), Stdin: in, Spares: true,
		Env:     append(c.CellEnv(), "STOUT_EVENT="+kind, "STOUT_PATH="+path, fmt.Sprintf("STOUT_REVISION=%d", revision)),
		Margins: child.Margins{Term: app.LastSteps, Kill: app.LastSteps}, Revoked: ctx.Done(), Signals: c.signals,
	}, func(e child.Event) string {
		return app.Happened(e, c.exec, "the watch ends", "changes are not handled")
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case result.Code == exit.OK || result.Interrupted:
		return err
	}
	c.UI.Note("the command for revision %d: exit status %d", revision, result.Code)
	return nil
}

func eventWords(e *lockapi.CellEvent) []string {
	var words []string
	if e.Path != "" {
		words = append(words, format.Clean(e.Path))
	}
	switch {
	case e.File != nil && e.Type != lockapi.EventFileDeleted:
		words = append(words, format.Plural(e.File.Size, "byte"))
	case e.Hold != nil && e.Hold.Token != 0:
		words = append(words, format.Clean(e.Hold.SessionName), fmt.Sprintf("token %d", e.Hold.Token))
	case e.Hold != nil:
		words = append(words, format.Clean(e.Hold.SessionName))
	case e.Master != nil:
		words = append(words, format.Clean(e.Master.Master), fmt.Sprintf("epoch %d", e.Master.Epoch))
	}
	if e.Reason != "" {
		words = append(words, format.Clean(e.Reason))
	}
	return words
}

func shell(command string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/C", command}
	}
	return []string{"/bin/sh", "-c", command}
}
