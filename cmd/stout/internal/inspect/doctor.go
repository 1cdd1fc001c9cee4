package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/doctor"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/safetext"
)

// exitLook is the exit code of stout doctor if there are warnings but no
// errors.
const exitLook = 5

type runDoctor struct {
	*app.App
	watched time.Duration
}

func (a *runDoctor) command() app.Command {
	return app.Command{
		Use: "doctor", Short: "Check a cell and the connection to it, and advise", SuggestFor: "diagnose checkup verify-cell troubleshoot", Unlimited: true,
		Long: `Checks the connection from here to the cell (names, TCP, TLS, certificates,
latency, credentials), the cell (master, tolerated failures, lag, releases) and
each replica (disk and lease against the timing, elections, clock rates, quotas,
open files, connections, certificates, backups). It asks each named replica and
each member's URL, and changes nothing. Each problem comes with advice.

Clock rates are measured by the growth of each replica's uptime, with an error
bound: --for 30s measures ten times as precisely as 3s.`,
		Exits: exit.ReadExits("no problem found", "something is bad") + ", 5 there are warnings, but nothing is bad",
		Example: `  stout doctor
  stout doctor --for 30s
  stout doctor -o json | jq '.findings[] | select(.verdict == "bad")'`,
		Flags: func(f *pflag.FlagSet) {
			f.DurationVar(&a.watched, "for", 3*time.Second, "measure clocks and watch mastership for this `duration`")
		},
		Run: func(ctx context.Context, _ []string) error {
			if a.watched < 0 || a.watched > 10*time.Minute {
				return exit.Usagef("--for is %v; it must be from 0s to 10m", a.watched)
			}
			look := doctor.Prober{
				Admin: a.Admin, Poller: a.Asker(), Cell: a.Collector().Cell, Version: buildinfo.Version(),
				Step: min(a.Options.Timeout, app.DefaultTimeout), For: a.watched,
				Doing: func(what string) { a.UI.Progress("doctor", what) },
			}
			seen := look.Look(ctx)
			a.UI.Progress("", "")
			if err := ctx.Err(); err != nil {
				return err
			}
			report := doctor.Examine(seen)
			if err := ui.Answer(a.UI, report, nil, a.showReport); err != nil {
				return err
			}
			return doctorFailure(seen, report)
		},
	}
}

// doctorFailure returns the exit code for the findings, which are already
// printed.
func doctorFailure(seen *doctor.Seen, report doctor.Report) error {
	reached := false
	for _, at := range seen.Servers {
		reached = reached || at.Answers()
	}
	switch {
	case !reached:
		return &exit.Failure{Code: exit.Unreachable, Message: "no replica can be reached", Quiet: true}
	case seen.Cell != nil && !ask.InOffice(*seen.Cell):
		return &exit.Failure{Code: exit.NoMaster, Message: "the cell has no master", Quiet: true}
	case report.Worst == doctor.Bad:
		return &exit.Failure{Code: exit.Failed}
	case report.Worst == doctor.Warn:
		return &exit.Failure{Code: exitLook}
	}
	return nil
}

var areaTitles = map[string]string{
	doctor.AreaNetwork: "The connection from here", doctor.AreaCell: "The cell", doctor.AreaReplicas: "The replicas",
}

func (a *runDoctor) showReport(report doctor.Report) {
	area := ""
	count := make(map[doctor.Verdict]int)
	for _, f := range report.Findings {
		if f.Area != area {
			if area != "" {
				a.UI.Printf("\n")
			}
			area = f.Area
			a.UI.Printf("%s\n", a.UI.Out.Bold(areaTitles[area]))
		}
		count[f.Verdict]++
		a.showFinding(f)
	}
	a.UI.Printf("\n%d bad, %d warnings, %d unknown, %d ok\n", count[doctor.Bad],
		count[doctor.Warn], count[doctor.Unknown], count[doctor.OK])
}

var marks = map[doctor.Verdict]string{doctor.OK: "ok", doctor.Unknown: "?", doctor.Warn: "WARN", doctor.Bad: "BAD"}

// checkWidth is the width of the longest check name.
const checkWidth = 15

func (a *runDoctor) showFinding(f doctor.Finding) {
	p := a.UI.Out
	style := map[doctor.Verdict]func(...string) string{
		doctor.OK: p.OK, doctor.Unknown: p.Faint, doctor.Warn: p.Warn, doctor.Bad: p.Fail,
	}[f.Verdict]
	head := fmt.Sprintf("  %s  %-*s ", style(fmt.Sprintf("%-4s", marks[f.Verdict])), checkWidth, f.Check)
	blanks := fmt.Sprintf("%*s", 2+4+2+checkWidth+1, "")
	a.UI.Block(head, blanks, safetext.Line(f.Found))
	if f.Do != "" && f.Verdict != doctor.OK {
		a.UI.Block(blanks, blanks, p.Faint("→ ")+safetext.Line(f.Do))
	}
}
