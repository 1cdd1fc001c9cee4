package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict is what a check came to, from the best to the worst.
type Verdict int

// The verdicts. What can't be told is no bad sign, and no good one.
const (
	OK Verdict = iota
	Unknown
	Warn
	Bad
)

var verdicts = []string{"ok", "cannot tell", "warn", "bad"}

// String is the verdict in words.
func (v Verdict) String() string { return verdicts[v] }

// MarshalText makes the verdict a word in JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Areas that findings belong to, in the order in which they are shown.
const (
	AreaWay      = "way"      // from here to the replicas
	AreaCell     = "cell"     // the cell as a whole
	AreaReplicas = "replicas" // each for itself
)

// Finding is what one check came to.
type Finding struct {
	Area    string  `json:"area"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`        // with values
	Do      string  `json:"do,omitempty"` // what to do about it
}

// Report is all findings.
type Report struct {
	Findings []Finding `json:"findings"`
	Worst    Verdict   `json:"worst"`
}

// Examine judges what was seen.
func Examine(s *Seen) Report {
	var out Report
	for _, check := range []func(*Seen) []Finding{
		names, connections, proxies, handshakes, certificates, plaintext, answers, latency, sameCell, wallClock, credential, clientVersion,
		office, spare, lostChanges, membership, lag, versions, urls, accessOn, deadlocks,
		figures, disks, space, snapshots, stability, margins, clockRates, clocksOfOthers, terms, quotas, openFiles, sockets, replicaCertificates, between, backups, auditLog, sums,
	} {
		out.Findings = append(out.Findings, check(s)...)
	}
	for _, f := range out.Findings {
		out.Worst = max(out.Worst, f.Verdict)
	}
	return out
}

// gathered are the findings of one check over several things. Those that are well
// make one finding, and so do those that come to the same and ask for the same.
type gathered struct {
	area, check string
	findings    []Finding
}

func (g *gathered) ok(format string, args ...any) { g.add(OK, "", format, args...) }

func (g *gathered) add(v Verdict, do, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for i := range g.findings {
		if f := &g.findings[i]; f.Verdict == v && f.Do == do {
			if !slices.Contains(strings.Split(f.Found, "; "), text) {
				f.Found += "; " + text
			}
			return
		}
	}
	g.findings = append(g.findings, Finding{g.area, g.check, v, text, do})
}

// all has what is well first, and then the worst.
func (g *gathered) all() []Finding {
	slices.SortStableFunc(g.findings, func(a, b Finding) int {
		switch {
		case a.Verdict == b.Verdict:
			return 0
		case a.Verdict == OK, b.Verdict != OK && a.Verdict > b.Verdict:
			return -1
		}
		return 1
	})
	return g.findings
}

// one is the finding of a check that is of one thing.
func one(area, check string, v Verdict, do, format string, args ...any) []Finding {
	return []Finding{{area, check, v, fmt.Sprintf(format, args...), do}}
}
