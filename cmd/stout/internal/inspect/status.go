// Package inspect has the commands that show the cell, its locks and its
// sessions, and those that end a hold or a session. Views that renew themselves are in
// package top, checks of the cell's health in doctor.
package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

// Commands returns the commands of this package.
func Commands(a *app.App) []app.Command {
	locks, sessions := &locks{a}, &sessions{a}
	return []app.Command{
		(&showStatus{App: a}).command(), topCommand(a), (&runDoctor{App: a}).command(),
		locks.listLocks(), locks.checkSequencer(), (&explainer{a}).command(), (&releaseLock{App: a}).command(),
		sessions.listSessions(), sessions.session(), sessions.deadlocks(),
	}
}

type showStatus struct {
	*app.App
	check, watch bool
}

func (c *showStatus) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "status", Short: "Show the master, its lease and every replica", SuggestFor: "cell health info replicas", Unlimited: true,
		Long: `Shows the master with its epoch and lease, and each replica with its role,
health, applied index and lag. PROMISE is the master that the replica has
promised to follow exclusively, and for how long. CONTACT is the time since it
last received from its master or, for a replica that is down, since it was last
seen. Below that, stout describes what is wrong, and the command that repairs
it, if there is one.

All replicas are asked at once, so one that hangs does not delay the others.
Each server named by a URL is also asked for its cell; a mix of cells, possible
after a recovery, is reported.

With --watch -o json, each look is one line: the cell as in the HTTP API, with
its time "at" and "findings"; or "at", "error" and "details" if no replica
describes the cell.`,
		Exits: exit.ReadExits("a master holds its lease", "the servers belong to several cells") +
			"; with --check, 1 also means that a master holds its lease but a replica is unhealthy",
		Example: `  stout status
  stout status --watch
  stout status --check --quiet || notify-send "the cell is not well"`,
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&c.check, "check", false, "also exit with 1 if a replica is unhealthy")
			f.BoolVarP(&c.watch, "watch", "w", false, "repeat every second, until Ctrl-C")
		},
	}
}

func (c *showStatus) run(ctx context.Context, _ []string) error {
	switch {
	case c.watch && c.check:
		return exit.Usagef("--watch and --check exclude each other")
	case c.watch && c.UI.JSON:
		return c.refreshLines(ctx)
	case c.watch:
		return c.refresh(ctx)
	}
	return c.status(ctx, c.check)
}

type statusLook struct {
	At time.Time `json:"at"`
	*lockapi.Cell
	Findings []survey.Finding `json:"findings,omitempty"`
	Error    string           `json:"error,omitempty"`
	Details  []string         `json:"details,omitempty"`
}

func (c *showStatus) statusLine(ctx context.Context) any {
	seen, found, f, err := c.Collector().Look(ctx, c.Options.Timeout)
	line := statusLook{At: time.Now().UTC()}
	if err != nil {
		f = c.Explain(err)
	} else {
		line.Findings, line.Cell = c.endings(ctx, seen.Cell, found), &seen.Cell
	}
	if f != nil {
		line.Error, line.Details = f.Message, append(f.Details, f.Hints...)
	}
	return line
}

// status prints the cell, and returns what is wrong with it as an error.
func (c *showStatus) status(ctx context.Context, check bool) error {
	seen, found, f, err := c.Collector().Look(ctx, c.Options.Timeout)
	if err != nil {
		return err
	}
	cell := seen.Cell
	found = c.endings(ctx, cell, found)
	switch {
	case check && c.UI.Quiet:
	case c.UI.JSON:
		err = c.UI.Object(cell)
		c.noteFindings(cell, found)
	default:
		c.showCell(cell, found)
	}
	switch {
	case err != nil:
		return err
	case f != nil:
		return f
	case check && len(found) > 0:
		return &exit.Failure{Code: exit.Failed, Quiet: true, Message: fmt.Sprintf("unhealthy: %d of %s", len(found), format.Plural(len(cell.Replicas), "replica"))}
	}
	return nil
}

func (c *showStatus) showCell(cell lockapi.Cell, found []survey.Finding) {
	p := c.UI.Out
	master, lease := p.Fail("none"), p.Fail("not held")
	if m := cell.Master; m != nil {
		master = p.OK(format.Clean(m.ID)) + "  " + format.Clean(m.URL)
	}
	if l := cell.Lease; l.Held {
		lease = fmt.Sprintf("%s, %s of %s left, renewed %s ago",
			p.OK("held"), format.MS(l.RemainingMS), format.MS(l.TermMS), format.MS(l.RenewedAgoMS))
	}
	pairs := [][2]string{
		{"cell", format.Clean(cell.Cell)}, {"master", master},
		{"epoch", fmt.Sprint(cell.Epoch)}, {"lease", lease},
	}
	if cell.Sessions != nil && cell.Locks != nil && cell.Waiters != nil {
		pairs = append(pairs, [2]string{"serving", fmt.Sprintf("%s, %s, %s",
			format.Plural(*cell.Sessions, "session"), format.Plural(*cell.Locks, "lock"), format.Plural(*cell.Waiters, "waiter"))})
	}
	if cell.Files != nil && cell.ContentBytes != nil {
		pairs = append(pairs, [2]string{"files", fmt.Sprintf("%d, %s of content", *cell.Files, format.Bytes(*cell.ContentBytes))})
	}
	access := "off: every caller may do everything"
	if cell.Access {
		access = "on"
	}
	pairs = append(pairs, [2]string{"access", access})
	c.UI.Pairs(pairs...)
	c.UI.Printf("\n")
	c.showReplicas(cell, found)
	c.showFindings(cell, found)
}

func (c *showStatus) showReplicas(cell lockapi.Cell, found []survey.Finding) {
	newest := survey.LastIndex(cell.Replicas)
	replicas := slices.SortedFunc(slices.Values(cell.Replicas), func(x, y lockapi.Replica) int { return strings.Compare(x.ID, y.ID) })
	c.UI.Table([]ui.Column{
		ui.Left("REPLICA"), ui.Left("ROLE"), ui.Left("HEALTH"), ui.Right("APPLIED").Drop(2), ui.Right("LAG"),
		ui.Left("PROMISE").Drop(4), ui.Right("CONTACT").Drop(3), ui.Left("ADDRESS").Drop(1),
	}, ui.Rows(replicas, func(r lockapi.Replica) []string { return c.replicaRow(r, newest, survey.FindingOf(found, r.ID)) }))
}

// replicaRow returns a replica's row. A replica that is down shows only what
// does not age: not its lag or promise. A replica outside the cell shows no
// state at all.
func (c *showStatus) replicaRow(r lockapi.Replica, newest uint64, found survey.Finding) []string {
	p := c.UI.Out
	role, health := format.Clean(r.Role), p.Fail("DOWN")
	applied, lag, promise, contact := "-", "-", "-", "-"
	if r.Role == lockapi.RoleMaster {
		role = p.OK(format.Clean(r.Role))
	} else {
		contact = format.MS(r.LastContactMS)
	}
	if r.Healthy || r.AppliedIndex > 0 {
		applied = fmt.Sprint(r.AppliedIndex)
	}
	if found.Foreign {
		health = p.Fail("OUT")
	}
	if r.Healthy {
		health, lag = p.OK("ok"), fmt.Sprint(newest-r.AppliedIndex)
		if newest-r.AppliedIndex > survey.LargeLag {
			lag = p.Warn(lag)
		}
		if r.Promise != nil {
			promise = fmt.Sprintf("%s %s", format.Clean(r.Promise.To), format.MS(r.Promise.RemainingMS))
		}
	}
	if found.NoMaster {
		health = p.Fail("no master")
	}
	return []string{format.Clean(r.ID), role, health, applied, lag, promise, contact, c.Address(r.URL)}
}

// endings adds certificates that end soon to the findings, and notes our own.
func (c *showStatus) endings(ctx context.Context, cell lockapi.Cell, found []survey.Finding) []survey.Finding {
	found = c.Collector().Endings(ctx, cell, found)
	if c.Certs != nil && survey.UsesTLS(cell) {
		certificate, cas := c.Certs.Ends()
		if certs.EndsSoon(certificate) {
			c.UI.Note("our certificate, %s, %s", c.Options.Files.Cert, survey.When(certificate))
		}
		if certs.EndsSoon(cas) {
			c.UI.Note("the last CA in %s %s", c.Options.Files.CA, survey.When(cas))
		}
	}
	return found
}

const refreshEvery = time.Second

// refresh shows the cell repeatedly, until ctx ends or a signal comes. The picture
// has the error as well, so an unreachable cell is also a picture.
func (c *showStatus) refresh(ctx context.Context) error {
	stdout, stderr := c.UI.Out.To, c.UI.Err.To
	first := true
	return again(ctx, func() error {
		var picture bytes.Buffer
		c.UI.UpdateWidth()
		c.UI.Out.To, c.UI.Err.To = &picture, &picture
		if err := c.status(ctx, false); err != nil {
			picture.WriteString("\n")
			c.UI.Failure(c.Explain(err))
		}
		c.UI.Out.To, c.UI.Err.To = stdout, stderr
		_, err := io.WriteString(stdout, c.frame(picture.String(), first))
		first = false
		return err
	})
}

// refreshLines prints an answer repeatedly, as one line of JSON each. A line is
// written in one call, so a signal cuts none in half.
func (c *showStatus) refreshLines(ctx context.Context) error {
	return again(ctx, func() error {
		line, err := json.Marshal(c.statusLine(ctx))
		if err == nil {
			_, err = io.WriteString(c.UI.Out.To, safetext.JSON(string(line))+"\n")
		}
		return err
	})
}

// again calls f, with pauses of refreshEvery, until it fails or ctx ends.
func again(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			err = ask.Sleep(ctx, refreshEvery)
		}
		if err != nil {
			return err
		}
	}
}

// frame prepares a picture for standard output. On a terminal it overwrites the
// previous picture line by line, without flicker. Lines beyond the screen are
// cut.
func (c *showStatus) frame(picture string, first bool) string {
	_, height, err := term.GetSize(int(c.Stdout.Fd()))
	if err != nil {
		if first {
			return picture
		}
		return "\n" + picture
	}
	const home, clear, clearLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	lines := strings.Split(strings.TrimSuffix(picture, "\n"), "\n")
	if height > 1 { // 0 if the terminal does not report it
		lines = lines[:min(len(lines), height-1)]
	}
	out := home + strings.Join(lines, clearLine+"\n") + clearLine + "\n" + clearBelow
	if first {
		return clear + out
	}
	return out
}

// mending introduces the repair command, which needs a master.
func mending(cell lockapi.Cell) string {
	if ask.InOffice(cell) {
		return "repair it: "
	}
	return "repair it when the cell has a master: "
}

func (c *showStatus) showFindings(cell lockapi.Cell, found []survey.Finding) {
	if len(found) == 0 {
		return
	}
	c.UI.Printf("\n")
	for _, f := range found {
		c.UI.Hanging("", c.UI.Out.Bold(format.Clean(f.ID)), f.What)
		if f.Command != "" {
			c.UI.Indent(mending(cell) + f.Command)
		}
	}
}

func (c *showStatus) noteFindings(cell lockapi.Cell, found []survey.Finding) {
	for _, f := range found {
		if c.UI.Note("%s %s", f.ID, f.What); f.Command != "" {
			c.UI.Note("%s%s", mending(cell), f.Command)
		}
	}
}
