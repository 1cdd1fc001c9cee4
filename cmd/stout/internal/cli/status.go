package cli

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

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

type showStatus struct {
	*app
	check, watch bool
}

func (c *showStatus) command() command {
	return command{
		use: "status", short: "Show the master, its lease, and every replica", like: "cell health info replicas", endless: true,
		long: `Shows who is master, for which epoch and how long its lease still runs, and per
replica its role, health, applied index and how far that is behind, to whom it
has promised not to let another master act, and when it last heard of its
master (or, if it is down, was last heard of). Below that, what is the matter
with those that are not well, and the command that mends it where there is one.

All replicas are asked at once: one that hangs does not stand in the way.

With --watch -o json each look is a line: the cell as in the HTTP API, at, when
that was, and findings, what is the matter; or at, error and details, where no
replica tells of the cell.

Servers that are named by their URLs are each asked of which cell they are: the
ones of several cells, which one may be after a recovery, are told.

Exit codes: 0 a master holds its lease, 1 the servers are of several cells, 2
wrong usage, 3 the cell has no master, 4 no replica can be reached; with --check
1 is also: a master holds its lease, and something else is the matter.`,
		example: `  stout status
  stout status --watch
  stout status --check --quiet || notify-send "the cell is not well"`,
		flags: func(f *pflag.FlagSet) {
			f.BoolVar(&c.check, "check", false, "exit with 1 also where a replica is not well")
			f.BoolVarP(&c.watch, "watch", "w", false, "show it again every second, until Ctrl-C")
		},
	}
}

func (c *showStatus) run(ctx context.Context, _ []string) error {
	switch {
	case c.watch && c.check:
		return usagef("--watch and --check do not go together: --check ends with the answer")
	case c.watch && c.ui.json:
		return c.refreshLines(ctx)
	case c.watch:
		return c.refresh(ctx, func(ctx context.Context) error { return c.status(ctx, false) })
	}
	return c.status(ctx, c.check)
}

// statusLook is one look of a watched status, for programs.
type statusLook struct {
	At time.Time `json:"at"`
	*lockapi.Cell
	Findings []finding `json:"findings,omitempty"`
	Error    string    `json:"error,omitempty"`
	Details  []string  `json:"details,omitempty"`
}

// statusLine looks at the cell once. That there is no master is told by the cell,
// and as an error beside it.
func (a *showStatus) statusLine(ctx context.Context) any {
	cells := a.askCells(ctx)
	seen, err := a.survey(ctx, a.opts.timeout)
	line := statusLook{At: time.Now().UTC()}
	if err != nil {
		f := a.explain(err)
		line.Error, line.Details = f.message, append(f.details, f.hints...)
		return line
	}
	line.Findings, line.Cell = a.endings(ctx, seen.Cell, a.examine(ctx, &seen)), &seen.Cell
	f := <-cells
	if f == nil && !ask.InOffice(seen.Cell) {
		f = a.noMaster(seen.Cell)
	}
	if f != nil {
		line.Error, line.Details = f.message, append(f.details, f.hints...)
	}
	return line
}

// status shows the cell and returns what is wrong with it as an error.
func (a *showStatus) status(ctx context.Context, check bool) error {
	cells := a.askCells(ctx)
	seen, err := a.survey(ctx, a.opts.timeout)
	if err != nil {
		return err
	}
	found := a.endings(ctx, seen.Cell, a.examine(ctx, &seen))
	cell := seen.Cell
	switch {
	case check && a.ui.quiet:
	case a.ui.json:
		err = a.ui.object(cell)
		a.noteFindings(cell, found)
	default:
		a.showCell(cell, found)
	}
	several := <-cells
	switch {
	case err != nil:
		return err
	case several != nil:
		if !ask.InOffice(cell) {
			several.code = exitNoMaster
		}
		return several
	case !ask.InOffice(cell):
		return a.noMaster(cell)
	case check && len(found) > 0:
		return &failure{code: exitFailed, expected: true, message: fmt.Sprintf("not well: %d of %s", len(found), plural(len(cell.Replicas), "replica"))}
	}
	return nil
}

// noMaster is the error of a cell that has no master, or none that is seen to
// be in office.
func (a *app) noMaster(cell lockapi.Cell) *failure {
	if cell.Master != nil {
		return (&failure{code: exitNoMaster, message: fmt.Sprintf("%s is named as master, and is not seen to hold its lease", clean(cell.Master.ID))}).
			hint("it may just have been elected, or may not be reachable from here at %s", clean(cell.Master.URL))
	}
	up, voters, promised := 0, 0, int64(0)
	for _, r := range cell.Replicas {
		if r.Role == lockapi.RoleNonvoter {
			continue
		}
		if voters++; !r.Healthy || r.Role == lockapi.RoleNone { // which waits to be a member
			continue
		}
		if up++; r.Promise != nil {
			promised = max(promised, r.Promise.RemainingMS)
		}
	}
	none := &failure{code: exitNoMaster, message: "the cell has no master: no lock or member can be changed now"}
	if up > voters/2 && promised > 0 {
		return none.hint("%d of %s answer; no master may act before earlier leases are over, in at most %s", up, plural(voters, "replica"), millis(promised))
	}
	return none.hint("%d of %s answer; a master needs %d that see each other", up, plural(voters, "replica"), voters/2+1)
}

func (a *app) showCell(cell lockapi.Cell, found []finding) {
	p := a.ui.out
	master, lease := p.fail.Render("none"), p.fail.Render("not held")
	if m := cell.Master; m != nil {
		master = p.good.Render(clean(m.ID)) + "  " + clean(m.URL)
	}
	if l := cell.Lease; l.Held {
		lease = fmt.Sprintf("%s, %s of %s left, renewed %s ago",
			p.good.Render("held"), millis(l.RemainingMS), millis(l.TermMS), millis(l.RenewedAgoMS))
	}
	pairs := [][2]string{
		{"cell", clean(cell.Cell)}, {"master", master},
		{"epoch", fmt.Sprint(cell.Epoch)}, {"lease", lease},
	}
	if cell.Sessions != nil && cell.Locks != nil && cell.Waiters != nil {
		pairs = append(pairs, [2]string{"serving", fmt.Sprintf("%s, %s, %s",
			plural(*cell.Sessions, "session"), plural(*cell.Locks, "lock"), plural(*cell.Waiters, "waiter"))})
	}
	if cell.Files != nil && cell.ContentBytes != nil {
		pairs = append(pairs, [2]string{"files", fmt.Sprintf("%d, %s of content", *cell.Files, byteSize(*cell.ContentBytes))})
	}
	access := "off: whoever reaches the cell may do everything"
	if cell.Access {
		access = "on"
	}
	pairs = append(pairs, [2]string{"access", access})
	a.ui.pairs(pairs...)
	a.ui.printf("\n")
	a.ui.table([]column{
		left("REPLICA"), left("ROLE"), left("HEALTH"), right("APPLIED"), right("LAG"),
		left("PROMISE").sparing(2), right("CONTACT").sparing(1), left("ADDRESS"),
	}, a.replicaRows(cell.Replicas, found))
	a.showFindings(cell, found)
}

func (a *app) replicaRows(replicas []lockapi.Replica, found []finding) [][]string {
	newest := newestIndex(replicas)
	replicas = slices.SortedFunc(slices.Values(replicas), func(x, y lockapi.Replica) int { return strings.Compare(x.ID, y.ID) })
	return rows(replicas, func(r lockapi.Replica) []string {
		return a.replicaRow(r, newest, outsider(found, r.ID), isDeafIn(found, r.ID))
	})
}

// replicaRow shows of a replica that is down only what was last known and does
// not age: how far it is behind now, and what it has promised, nobody knows. Of
// one that answers with a directory that does not belong to the cell nothing is
// known.
func (a *app) replicaRow(r lockapi.Replica, newest uint64, outsider, deaf bool) []string {
	p := a.ui.out
	role, health := p.plain.Render(clean(r.Role)), p.fail.Render("DOWN")
	applied, lag, promise, contact := "-", "-", "-", "-"
	if r.Role == lockapi.RoleMaster {
		role = p.good.Render(clean(r.Role))
	} else {
		contact = millis(r.LastContactMS)
	}
	if r.Healthy || r.AppliedIndex > 0 {
		applied = fmt.Sprint(r.AppliedIndex)
	}
	if outsider {
		health = p.fail.Render("OUT")
	}
	if r.Healthy {
		health, lag = p.good.Render("ok"), fmt.Sprint(newest-r.AppliedIndex)
		if newest-r.AppliedIndex > largeLag {
			lag = p.warn.Render(lag)
		}
		if r.Promise != nil {
			promise = fmt.Sprintf("%s %s", clean(r.Promise.To), millis(r.Promise.RemainingMS))
		}
	}
	if deaf {
		health = p.fail.Render("no master")
	}
	return []string{clean(r.ID), role, health, applied, lag, promise, contact, a.address(r.URL)}
}

// refreshEvery is how long a watched answer stays.
const refreshEvery = time.Second

// refresh shows an answer again and again, until ctx ends or a signal ends us. What show
// prints, and the error that it returns, are the picture: a cell that cannot be reached
// is one too.
func (c *showStatus) refresh(ctx context.Context, show func(context.Context) error) error {
	stdout, stderr := c.ui.out.w, c.ui.err.w
	first := true
	return again(ctx, func() error {
		var picture bytes.Buffer
		c.ui.out.w, c.ui.err.w = &picture, &picture
		if err := show(ctx); err != nil {
			picture.WriteString("\n")
			c.ui.failure(c.explain(err))
		}
		c.ui.out.w, c.ui.err.w = stdout, stderr
		_, err := io.WriteString(stdout, c.frame(picture.String(), first))
		first = false
		return err
	})
}

// refreshLines prints an answer again and again, as a line of JSON each time. Each is
// written as a whole, so that a signal leaves no half of one.
func (c *showStatus) refreshLines(ctx context.Context) error {
	return again(ctx, func() error {
		line, err := json.Marshal(c.statusLine(ctx))
		if err == nil {
			_, err = io.WriteString(c.ui.out.w, safetext.JSON(string(line))+"\n")
		}
		return err
	})
}

// again calls f each refreshEvery until it fails or ctx ends.
func again(ctx context.Context, f func() error) error {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		if err := f(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// frame is a picture as it goes to standard output. On a terminal it takes the
// place of the one before, line by line, so that nothing flickers; what is
// beyond the last line is left out.
func (a *app) frame(picture string, first bool) string {
	_, height, err := term.GetSize(int(a.stdout.Fd()))
	if err != nil {
		if first {
			return picture
		}
		return "\n" + picture
	}
	const home, clear, clearLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	lines := strings.Split(strings.TrimSuffix(picture, "\n"), "\n")
	if height > 1 { // 0 where a terminal does not say
		lines = lines[:min(len(lines), height-1)]
	}
	out := home + strings.Join(lines, clearLine+"\n") + clearLine + "\n" + clearBelow
	if first {
		return clear + out
	}
	return out
}
