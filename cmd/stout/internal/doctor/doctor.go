// Package doctor finds problems of a cell and of a client's connection to it. A
// Prober asks the replicas; Examine, a pure function, evaluates the answers.
//
// Texts may contain foreign words: the caller must make them safe before it
// prints them.
package doctor

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
)

// Verdict is the result of a check, from the best to the worst.
type Verdict int

// The verdicts. Unknown is neither a good nor a bad sign.
const (
	OK Verdict = iota
	Unknown
	Warn
	Bad
)

var verdicts = []string{"ok", "cannot tell", "warn", "bad"}

// String returns the verdict in words.
func (v Verdict) String() string { return verdicts[v] }

// MarshalText encodes the verdict as a word in JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Areas of findings, in the order in which they are shown.
const (
	AreaNetwork  = "way"      // from here to the replicas
	AreaCell     = "cell"     // the cell as a whole
	AreaReplicas = "replicas" // each replica
)

// Finding is one result of a check.
type Finding struct {
	Area    string  `json:"area"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`        // with values
	Do      string  `json:"do,omitempty"` // advice
}

// Report is all findings.
type Report struct {
	Findings []Finding `json:"findings"`
	Worst    Verdict   `json:"worst"`
}

// checks lists all checks, in the order in which their findings are shown.
var checks = []struct {
	area, name string
	check      func(*Seen, *gathered)
}{
	{AreaNetwork, "names", names},
	{AreaNetwork, "connect", connections},
	{AreaNetwork, "proxy", proxies},
	{AreaNetwork, "tls", handshakes},
	{AreaNetwork, "certificates", certificates},
	{AreaNetwork, "encryption", plaintext},
	{AreaNetwork, "answers", answers},
	{AreaNetwork, "latency", latency},
	{AreaNetwork, "one cell", sameCell},
	{AreaNetwork, "wall clock", wallClock},
	{AreaNetwork, "token", tokenEnd},
	{AreaNetwork, "who we are", credential},
	{AreaNetwork, "this program", clientVersion},
	{AreaCell, "master", office},
	{AreaCell, "tolerance", spare},
	{AreaCell, "acknowledged changes", lostChanges},
	{AreaCell, "members", membership},
	{AreaCell, "lag", lag},
	{AreaCell, "releases", versions},
	{AreaCell, "members' URLs", urls},
	{AreaCell, "access", accessOn},
	{AreaCell, "waits", waitCycles},
	{AreaReplicas, "metrics", figures},
	{AreaReplicas, "disk", each(disks)},
	{AreaReplicas, "disk space", each(space)},
	{AreaReplicas, "snapshots", each(snapshots)},
	{AreaReplicas, "elections", each(stability)},
	{AreaReplicas, "lease", each(margins)},
	{AreaReplicas, "clock rates", clockRates},
	{AreaReplicas, "peers' clocks", each(clocksOfOthers)},
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

// each runs a check for each replica that shows its metrics.
func each(check func(s *Seen, g *gathered, id string, at *Server)) func(*Seen, *gathered) {
	return func(s *Seen, g *gathered) {
		s.eachFigures(func(id string, at *Server) { check(s, g, id, at) })
	}
}

// Examine evaluates what was seen.
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

func worse(bad bool) Verdict {
	if bad {
		return Bad
	}
	return Warn
}

// gathered collects the findings of one check over several things. Findings
// with the same verdict and the same advice are merged.
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

// all returns the findings: first what is well, then the worst.
func (g *gathered) all() []Finding {
	place := func(f Finding) Verdict {
		if f.Verdict == OK {
			return OK
		}
		return 1 + Bad - f.Verdict
	}
	slices.SortStableFunc(g.findings, func(a, b Finding) int { return cmp.Compare(place(a), place(b)) })
	return g.findings
}

// took formats a duration, including tenths of a millisecond.
func took(d time.Duration) string {
	if d > -10*time.Millisecond && d < 10*time.Millisecond {
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	}
	return format.Human(d)
}

func days(d time.Duration) string {
	return format.Plural(int(d/(24*time.Hour)), "day")
}

func share(of, all float64) string { return fmt.Sprintf("%.0f%%", 100*of/all) }

func parts(r float64) string { return fmt.Sprintf("%.2g ms/s", 1000*r) }

func list(words []string) string { return strings.Join(words, ", ") }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// seconds converts a metric to a duration, or to the longest one if it is out
// of range.
func seconds(s float64) time.Duration {
	if d := s * float64(time.Second); d > math.MinInt64 && d < math.MaxInt64 {
		return time.Duration(d)
	}
	return math.MaxInt64
}
