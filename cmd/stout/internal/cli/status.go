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
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

type showStatus struct {
	*app
	check, watch bool
}

func (a *app) showStatus() command {
	c := &showStatus{app: a}
	return command{
		run: c.run,
		use: "status", short: "Show the master, its lease and every replica", like: "cell health info replicas", endless: true,
		long: `Shows the master with its epoch and lease, and each replica with its role,
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
		exits: readExits("a master holds its lease", "the servers belong to several cells") +
			"; with --check, 1 also means that a master holds its lease but a replica is unhealthy",
		example: `  stout status
  stout status --watch
  stout status --check --quiet || notify-send "the cell is not well"`,
		flags: func(f *pflag.FlagSet) {
			f.BoolVar(&c.check, "check", false, "also exit with 1 if a replica is unhealthy")
			f.BoolVarP(&c.watch, "watch", "w", false, "repeat every second, until Ctrl-C")
		},
	}
}

func (c *showStatus) run(ctx context.Context, _ []string) error {
	switch {
	case c.watch && c.check:
		return usagef("--watch and --check exclude each other")
	case c.watch && c.ui.json:
		return c.refreshLines(ctx)
	case c.watch:
		return c.refresh(ctx, func(ctx context.Context) error { return c.status(ctx, false) })
	}
	return c.status(ctx, c.check)
}

// statusLook is one look of a watched status, as JSON.
type statusLook struct {
	At time.Time `json:"at"`
	*lockapi.Cell
	Findings []finding `json:"findings,omitempty"`
	Error    string    `json:"error,omitempty"`
	Details  []string  `json:"details,omitempty"`
}

// look asks all replicas for the cell, and what is wrong with each. f reports
// several cells, or a missing master; err, that no replica answers.
func (a *app) look(ctx context.Context) (seen picture, found []finding, f *failure, err error) {
	cells := a.askCells(ctx)
	if seen, err = a.survey(ctx, a.opts.timeout); err != nil {
		return seen, nil, nil, err
	}
	found = a.examine(ctx, &seen)
	f = <-cells
	switch held := ask.InOffice(seen.Cell); {
	case f == nil && !held:
		f = a.noMaster(seen.Cell)
	case !held:
		f.code = exitNoMaster
	}
	return seen, found, f, nil
}

// statusLine looks at the cell once.
func (a *showStatus) statusLine(ctx context.Context) any {
	seen, found, f, err := a.look(ctx)
	line := statusLook{At: time.Now().UTC()}
	if err != nil {
		f = a.explain(err)
	} else {
		line.Findings, line.Cell = a.endings(ctx, seen.Cell, found), &seen.Cell
	}
	if f != nil {
		line.Error, line.Details = f.message, append(f.details, f.hints...)
	}
	return line
}

// status prints the cell, and returns what is wrong with it as an error.
func (a *showStatus) status(ctx context.Context, check bool) error {
	seen, found, f, err := a.look(ctx)
	if err != nil {
		return err
	}
	cell := seen.Cell
	found = a.endings(ctx, cell, found)
	switch {
	case check && a.ui.quiet:
	case a.ui.json:
		err = a.ui.object(cell)
		a.noteFindings(cell, found)
	default:
		a.showCell(cell, found)
	}
	switch {
	case err != nil:
		return err
	case f != nil:
		return f
	case check && len(found) > 0:
		return &failure{code: exitFailed, expected: true, message: fmt.Sprintf("unhealthy: %d of %s", len(found), format.Plural(len(cell.Replicas), "replica"))}
	}
	return nil
}

// noMaster returns the error of a cell without a master that visibly holds its
// lease.
func (a *app) noMaster(cell lockapi.Cell) *failure {
	if cell.Master != nil {
		return (&failure{code: exitNoMaster, message: fmt.Sprintf("%s is named as master but does not visibly hold its lease", format.Clean(cell.Master.ID))}).
			hint("it may have just been elected, or is not reachable from here at %s", format.Clean(cell.Master.URL))
	}
	up, voters, promised := 0, 0, int64(0)
	for _, r := range cell.Replicas {
		if r.Role == lockapi.RoleNonvoter {
			continue
		}
		if voters++; !r.Healthy || r.Role == lockapi.RoleNone { // a replica without role waits to be a member
			continue
		}
		if up++; r.Promise != nil {
			promised = max(promised, r.Promise.RemainingMS)
		}
	}
	none := &failure{code: exitNoMaster, message: "the cell has no master: locks and members cannot be changed now"}
	if up > voters/2 && promised > 0 {
		return none.hint("%d of %s answer; a new master waits until earlier leases are over, at most %s", up, format.Plural(voters, "replica"), format.MS(promised))
	}
	return none.hint("%d of %s answer; a master needs %d that reach each other", up, format.Plural(voters, "replica"), voters/2+1)
}

func (a *app) showCell(cell lockapi.Cell, found []finding) {
	p := a.ui.out
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
	a.ui.pairs(pairs...)
	a.ui.printf("\n")
	a.showReplicas(cell, found)
	a.showFindings(cell, found)
}

func (a *app) showReplicas(cell lockapi.Cell, found []finding) {
	newest := newestIndex(cell.Replicas)
	replicas := slices.SortedFunc(slices.Values(cell.Replicas), func(x, y lockapi.Replica) int { return strings.Compare(x.ID, y.ID) })
	a.ui.table([]column{
		left("REPLICA"), left("ROLE"), left("HEALTH"), right("APPLIED").sparing(2), right("LAG"),
		left("PROMISE").sparing(4), right("CONTACT").sparing(3), left("ADDRESS").sparing(1),
	}, rows(replicas, func(r lockapi.Replica) []string { return a.replicaRow(r, newest, findingOf(found, r.ID)) }))
}

// replicaRow returns a replica's row. A replica that is down shows only what
// does not age: not its lag or promise. A replica outside the cell shows no
// state at all.
func (a *app) replicaRow(r lockapi.Replica, newest uint64, found finding) []string {
	p := a.ui.out
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
	if found.outside {
		health = p.Fail("OUT")
	}
	if r.Healthy {
		health, lag = p.OK("ok"), fmt.Sprint(newest-r.AppliedIndex)
		if newest-r.AppliedIndex > largeLag {
			lag = p.Warn(lag)
		}
		if r.Promise != nil {
			promise = fmt.Sprintf("%s %s", format.Clean(r.Promise.To), format.MS(r.Promise.RemainingMS))
		}
	}
	if found.deaf {
		health = p.Fail("no master")
	}
	return []string{format.Clean(r.ID), role, health, applied, lag, promise, contact, a.address(r.URL)}
}

// refreshEvery is the time between two watched answers.
const refreshEvery = time.Second

// refresh shows an answer repeatedly, until ctx ends or a signal comes. The
// picture is what show prints plus its error, so an unreachable cell is also a
// picture.
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

// refreshLines prints an answer repeatedly, as one line of JSON each. A line is
// written in one call, so a signal cuts none in half.
func (c *showStatus) refreshLines(ctx context.Context) error {
	return again(ctx, func() error {
		line, err := json.Marshal(c.statusLine(ctx))
		if err == nil {
			_, err = io.WriteString(c.ui.out.w, safetext.JSON(string(line))+"\n")
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
	if height > 1 { // 0 if the terminal does not report it
		lines = lines[:min(len(lines), height-1)]
	}
	out := home + strings.Join(lines, clearLine+"\n") + clearLine + "\n" + clearBelow
	if first {
		return clear + out
	}
	return out
}
