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

// checks are all checks, in the order in which their findings are shown.
var checks = []struct {
	area, name string
	check      func(*Seen, *gathered)
}{
	{AreaWay, "names", names},
	{AreaWay, "connect", connections},
	{AreaWay, "proxy", proxies},
	{AreaWay, "tls", handshakes},
	{AreaWay, "certificates", certificates},
	{AreaWay, "encryption", plaintext},
	{AreaWay, "answers", answers},
	{AreaWay, "latency", latency},
	{AreaWay, "one cell", sameCell},
	{AreaWay, "wall clock", wallClock},
	{AreaWay, "token", tokenEnd},
	{AreaWay, "who we are", credential},
	{AreaWay, "this program", clientVersion},
	{AreaCell, "master", office},
	{AreaCell, "failures borne", spare},
	{AreaCell, "acknowledged changes", lostChanges},
	{AreaCell, "members", membership},
	{AreaCell, "lag", lag},
	{AreaCell, "releases", versions},
	{AreaCell, "members' URLs", urls},
	{AreaCell, "access", accessOn},
	{AreaCell, "deadlocks", deadlocks},
	{AreaReplicas, "metrics", figures},
	{AreaReplicas, "disk", each(disks)},
	{AreaReplicas, "disk space", each(space)},
	{AreaReplicas, "snapshots", each(snapshots)},
	{AreaReplicas, "elections", each(stability)},
	{AreaReplicas, "lease", each(margins)},
	{AreaReplicas, "clock rates", clockRates},
	{AreaReplicas, "clocks, as told", each(clocksOfOthers)},
	{AreaReplicas, "timing", terms},
	{AreaReplicas, "quotas", each(quotas)},
	{AreaReplicas, "open files", each(openFiles)},
	{AreaReplicas, "connections", each(sockets)},
	{AreaReplicas, "certificates", each(replicaCertificates)},
	{AreaReplicas, "replicas' port", between},
	{AreaReplicas, "backups", backups},
	{AreaReplicas, "audit log", each(auditLog)},
	{AreaReplicas, "state", sums},
}

// each is a check of each replica that shows its metrics.
func each(check func(s *Seen, g *gathered, id string, at *Server)) func(*Seen, *gathered) {
	return func(s *Seen, g *gathered) {
		s.eachFigures(func(id string, at *Server) { check(s, g, id, at) })
	}
}

// Examine judges what was seen.
func Examine(s *Seen) Report {
	var out Report
	for _, c := range checks {
		g := gathered{area: c.area, check: c.name}
		c.check(s, &g)
		out.Findings = append(out.Findings, g.all()...)
	}
	for _, f := range out.Findings {
		out.Worst = max(out.Worst, f.Verdict)
	}
	return out
}

// worse is the verdict on what is not well.
func worse(bad bool) Verdict {
	if bad {
		return Bad
	}
	return Warn
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
