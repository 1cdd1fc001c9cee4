package doctor

import (
	"math"
	"net"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
)

const (
	nearlyUsed = 0.8 // share of a limit that deserves a warning
	usedUp     = 0.95
	fewFiles   = 1024
	fewBytes   = 512 << 20      // like the alert StoutDiskSpaceLow
	fewWrites  = 50             // too few to rate a disk
	backupOld  = 26 * time.Hour // daily, with some slack
	// defaultDrift is the default of clock-drift, for replicas that do not
	// report it.
	defaultDrift = 0.01
	// leaseOverHeartbeat is the default of master-lease in heartbeat-timeouts,
	// which replicas do not report either.
	leaseOverHeartbeat = 1.3
)

// Metrics that several checks evaluate.
const (
	metricMargin    = "stout_lease_renewal_margin_seconds"
	metricTerm      = "stout_lease_term_seconds"
	metricUnsnapped = "stout_snapshot_failures_total"
)

func figures(s *Seen, g *gathered) {
	for _, at := range s.answered() {
		switch {
		case at.Figures != nil:
		case ask.IsDenial(at.FiguresErr):
			g.add(Unknown, "Use a credential with the right to observe the cell. Until then the checks below omit this replica.", "%s shows no metrics: %v", at.Replica.ID, at.FiguresErr)
		default:
			g.add(Unknown, "", "%s shows no metrics: %s", at.Replica.ID, orNothing(at.FiguresErr))
		}
	}
}

// eachFigures calls f for each replica that shows its metrics.
func (s *Seen) eachFigures(f func(id string, at *Server)) {
	for _, at := range s.answered() {
		if at.Figures != nil {
			f(at.Replica.ID, at)
		}
	}
}

// disks compares the time of a write to the log with the heartbeat-timeout, as
// implied by the lease's term. In the long run a write may take at most a fifth
// of it; writes as long as the timeout cause elections.
func disks(s *Seen, g *gathered, id string, at *Server) {
	p99, of := at.latest().Within("stout_disk_sync_duration_seconds", 0.99)
	term, ok := at.Figures.Value(metricTerm)
	if !ok || of < fewWrites {
		g.add(Unknown, "", "%s has written %s since its start: too few to rate its disk", id, format.Plural(int(of), "time"))
		return
	}
	beat := term / leaseOverHeartbeat
	text := "99 of 100 writes within " + took(seconds(p99))
	if math.IsInf(p99, 1) {
		text = "more than 1 of 100 writes is slower than the histogram's range"
	}
	do := "Use a faster or a dedicated disk, or a longer heartbeat-timeout on all replicas, at least five times as long."
	if is, _ := at.latest().Value("stout_is_master"); is == 1 {
		do = "Until then make another replica the master with stout transfer. " + do
	}
	switch {
	case p99 > beat:
		g.add(Bad, do, "%s: %s (%d writes); a master that is silent for about %s is deposed", id, text, of, took(seconds(beat)))
	case p99 > beat/5:
		g.add(Warn, do, "%s: %s (%d writes), more than a fifth of the %s after which a silent master is deposed", id, text, of, took(seconds(beat)))
	default:
		g.ok("%s %s", id, text)
	}
}

func space(s *Seen, g *gathered, id string, at *Server) {
	left, ok := at.latest().Value("stout_disk_free_bytes")
	const do = "Free space on the file system of its data-dir, or enlarge it: a full disk ends the replica (exit code 74)."
	switch {
	case !ok:
	case left < fewBytes:
		g.add(worse(left < fewBytes/8), do, "%s has %.0f MiB left", id, left/(1<<20))
	default:
		g.ok("%s %.1f GiB left", id, left/(1<<30))
	}
}

func snapshots(s *Seen, g *gathered, id string, at *Server) {
	n, ok := at.Figures.Value(metricUnsnapped)
	later, _ := at.Later.Value(metricUnsnapped)
	const do = "Its log has the reason. Check the free space and the owner of the directory snapshots in its data-dir. If it is the master, make another replica the master with stout transfer."
	last := "no snapshot written since its start"
	if written, _ := at.latest().Value("stout_snapshot_last_success_timestamp_seconds"); written > 0 {
		last = "last one written " + took(s.At.Sub(time.Unix(int64(written), 0))) + " ago"
	}
	switch {
	case !ok:
	case later > n:
		g.add(Bad, do, "snapshots of %s failed %s during this check; %s", id, format.Plural(int(later-n), "time"), last)
	case n > 0:
		g.add(Warn, do, "snapshots of %s failed %s since its start; %s", id, format.Plural(int(n), "time"), last)
	default:
		g.ok("%s without a failure", id)
	}
}

func (s *Seen) failedSnapshots() map[string]bool {
	failed := map[string]bool{}
	s.eachFigures(func(id string, at *Server) {
		n, _ := at.latest().Value(metricUnsnapped)
		failed[id] = n > 0
	})
	return failed
}

func stability(s *Seen, g *gathered, id string, at *Server) {
	n, ok := at.Figures.Value("stout_raft_elections_total")
	if !ok || at.Replica.UptimeMS == nil {
		return
	}
	up := time.Duration(*at.Replica.UptimeMS) * time.Millisecond
	const do = "Frequent elections come from slow disks, an overloaded machine, a bad network, or a heartbeat-timeout that is too short."
	if later, ok := at.Later.Value("stout_raft_elections_total"); ok && later > n {
		g.add(Warn, do, "%s started an election during this check", id)
		return
	}
	if n >= 4 && up < time.Duration(n)*time.Hour {
		g.add(Warn, do, "%s started %.0f elections in %s", id, n, took(up))
		return
	}
	g.ok("%s %.0f in %s", id, n, took(up))
}

func margins(s *Seen, g *gathered, id string, at *Server) {
	_, of := at.Figures.Within(metricMargin, 1)
	if of == 0 {
		return // it was never master
	}
	term, _ := at.Figures.Value(metricTerm)
	lapsed, thin := at.Figures.UpTo(metricMargin, 0), at.Figures.UpTo(metricMargin, term/5)
	const do = "Entries take too long to reach a majority: check the disks and the network between the replicas. If the master is the cause, make another replica the master with stout transfer."
	switch {
	case lapsed > 0:
		g.add(Warn, do, "%s as master lost its lease %s in %d renewals since its start", id, format.Plural(int(lapsed), "time"), of)
	case float64(thin) > 0.01*float64(of):
		g.add(Warn, do, "%s as master had less than a fifth of its lease left in %d of %d renewals", id, thin, of)
	default:
		g.ok("%s made %s in time as master", id, format.Plural(int(of), "renewal"))
	}
}

func clockRates(s *Seen, g *gathered) {
	type clock struct {
		id string
		Rate
	}
	var clocks []clock
	for _, at := range s.answered() {
		if len(at.Samples) == 0 {
			continue
		}
		r, ok := RateOf(at.Samples)
		if !ok {
			g.add(Unknown, "", "%s: %d samples give no rate; it may have been restarted", at.Replica.ID, len(at.Samples))
			continue
		}
		clocks = append(clocks, clock{at.Replica.ID, r})
	}
	torn := 0
	for _, c := range clocks {
		if c.Torn {
			torn++
		}
	}
	if torn == len(clocks) && torn > 0 {
		g.add(Unknown, "", "all clocks stopped or stepped at once: perhaps this machine's own clock did. Check again.")
		return
	}
	allowed := s.allowedDrift()
	for i, a := range clocks {
		for _, b := range clocks[i+1:] {
			a, b := a, b
			if b.Torn {
				a, b = b, a
			}
			switch least, most := a.Apart(b.Rate); {
			case b.Torn: // compare with an intact clock only; two torn clocks may have stepped at different times
			case a.Torn && least > allowed:
				g.add(Bad, mendClocks, "the clock of %s stopped or stepped during this check: it differed from %s by at least %s", a.id, b.id, parts(least))
			case least > allowed/2:
				g.add(worse(least > allowed), mendClocks, "%s and %s differ by at least %s", a.id, b.id, parts(least))
			case most > allowed/2:
				g.add(Unknown, "Measure longer: --for 30s.", "%s and %s differ by at most %s, the precision of a measurement of %s", a.id, b.id, parts(most), took(s.For))
			default:
				g.ok("%s and %s differ by at most %s", a.id, b.id, parts(most))
			}
		}
	}
}

const mendClocks = "Leases rely on clock rates that differ by no more than clock-drift allows (default 0.01). Check for a starved virtual machine or strong slewing by NTP. Repair that, or raise clock-drift on all replicas."

// allowedDrift returns how much the rates of two clocks may differ: the
// smallest value that replicas report, or else the default of clock-drift for
// both.
func (s *Seen) allowedDrift() float64 {
	least := math.Inf(1)
	s.eachFigures(func(_ string, at *Server) {
		if a, ok := at.Figures.Value("stout_clock_rate_difference_max_ratio"); ok && a > 0 {
			least = min(least, a)
		}
	})
	if math.IsInf(least, 1) {
		return 2 * defaultDrift
	}
	return least
}

// clocksOfOthers checks the clock differences that replicas measured
// themselves, over a longer time than this check.
func clocksOfOthers(s *Seen, g *gathered, id string, at *Server) {
	allowed := s.allowedDrift()
	at.latest().Each("stout_member_clock_rate_difference_ratio", func(label func(string) string, differs float64) {
		other := label("replica")
		off, _ := at.latest().Value("stout_member_clock_rate_error_ratio", "replica", other)
		switch least := math.Abs(differs) - off; {
		case other == id:
		case least > allowed/2:
			g.add(worse(least > allowed), mendClocks, "%s measured that %s differs by at least %s", id, other, parts(least))
		case off > allowed:
			g.add(Unknown, "", "%s has measured %s only to within %s so far", id, other, parts(off))
		default:
			g.ok("%s of %s within %s", id, other, parts(math.Abs(differs)+off))
		}
	})
}

func terms(s *Seen, g *gathered) {
	ran := bySame{}
	s.eachFigures(func(id string, on *Server) {
		if term, ok := on.Figures.Value(metricTerm); ok {
			ran.add(took(seconds(term)), id)
		}
	})
	switch len(ran) {
	case 0:
	case 1:
		g.ok("the lease's term is %s on all replicas that report it", ran[0].what)
	default:
		g.add(Warn, "Give all replicas the same heartbeat-timeout and master-lease.", "the leases' terms differ: %s", ran.text(" "))
	}
}

func quotas(s *Seen, g *gathered, id string, at *Server) {
	most, what := 0.0, ""
	at.Figures.Each("stout_quota_max", func(label func(string) string, max float64) {
		quota := label("quota")
		used, ok := at.Figures.Value("stout_quota_used", "quota", quota)
		if !ok || max <= 0 {
			return
		}
		do := "Raise " + quota + " on all replicas, or find its users: stout sessions, stout locks, stout ls."
		switch of := used / max; {
		case of >= nearlyUsed:
			g.add(worse(of >= usedUp), do, "%s: %s is %s used (%.0f of %.0f)", id, quota, share(used, max), used, max)
		case of >= most:
			most, what = of, quota
		}
	})
	if what != "" {
		g.ok("%s at most %s", id, share(most, 1))
	}
}

func openFiles(s *Seen, g *gathered, id string, at *Server) {
	open, ok := at.Figures.Value("process_open_fds")
	limit, known := at.Figures.Value("process_max_fds")
	const do = "Raise the limit on open files of stoutd (LimitNOFILE of systemd, ulimit -n) and restart it."
	switch {
	case !ok || !known || limit <= 0:
		g.add(Unknown, "", "%s does not report its open files", id)
	case open/limit >= nearlyUsed:
		g.add(worse(open/limit >= usedUp), do, "%s has %.0f of %.0f open", id, open, limit)
	case limit < fewFiles:
		g.add(Warn, do, "%s may have only %.0f open: each waiting client needs one", id, limit)
	default:
		g.ok("%s %.0f of %.0f", id, open, limit)
	}
}

func sockets(s *Seen, g *gathered, id string, at *Server) {
	open, ok := at.Figures.Value("stout_http_connections")
	limit, known := at.Figures.Value("stout_http_max_connections")
	const do = "Raise max-connections (and the limit on open files), or find the clients that open so many."
	switch {
	case !ok || !known || limit <= 0:
	case open/limit >= nearlyUsed:
		g.add(worse(open/limit >= usedUp), do, "%s has %.0f of %.0f", id, open, limit)
	default:
		g.ok("%s %.0f of %.0f", id, open, limit)
	}
}

// replicaCertificates checks the certificates that the replicas report,
// including those between replicas.
func replicaCertificates(s *Seen, g *gathered, id string, at *Server) {
	const do = "Install a new one; stoutd loads it without a restart."
	at.Figures.Each("stout_certificate_expiry_timestamp_seconds", func(label func(string) string, ends float64) {
		g.certificate(id, label("use")+" "+label("part"), time.Unix(int64(ends), 0).Sub(s.At), do, do)
	})
	if n, _ := at.Figures.Value("stout_certificate_reloads_total", "result", "refused"); n > 0 {
		g.add(Warn, "The new files are broken; the old certificates stay in use until a restart. Check its log.", "%s refused new certificates %s since its start", id, format.Plural(int(n), "time"))
	}
}

func between(s *Seen, g *gathered) {
	var open []string
	s.eachFigures(func(id string, at *Server) {
		host, _, err := net.SplitHostPort(at.Replica.RaftAddr)
		if _, secured := at.Figures.Value("stout_certificate_expiry_timestamp_seconds", "use", "raft"); err == nil && !isLoopback(host) && !secured {
			open = append(open, id)
		}
	})
	if len(open) > 0 {
		g.add(Warn, "Set raft-cert, raft-key and raft-ca to authenticate replicas; until then a firewall must protect that port.", "%s connect without TLS", list(open))
	}
}

func backups(s *Seen, g *gathered) {
	var none []string
	s.eachFigures(func(id string, at *Server) {
		last, ok := at.Figures.Value("stout_backup_last_timestamp_seconds")
		if !ok {
			return
		}
		if n, _ := at.Figures.Value("stout_backups_failed_total"); n > 0 {
			g.add(Warn, "Check that backup-dir has room and is writable, and check its log.", "%s could not write %s since its start", id, format.Plural(int(n), "backup"))
		}
		age := s.At.Sub(time.Unix(int64(last), 0))
		switch {
		case last == 0:
			none = append(none, id)
		case age > backupOld:
			g.add(Warn, "If backup-every is shorter, check its log.", "%s wrote its last backup %s ago", id, took(age))
		default:
			g.ok("%s wrote a backup %s ago", id, took(age))
		}
	})
	if len(none) > 0 {
		g.add(Warn, "Set backup-every and backup-dir, and wait for the first backup. Backups made by stout backup save are not seen here.", "no scheduled backups since they started: %s", list(none))
	}
}

func auditLog(s *Seen, g *gathered, id string, at *Server) {
	failing, ok := at.Figures.Value("stout_audit_failing")
	lost, _ := at.Figures.Value("stout_audit_lines_total", "result", "lost")
	switch {
	case !ok:
	case failing == 1:
		g.add(Bad, "Free space on its disk, or let stoutd write the file: with audit-required no change is made until then.", "%s cannot write its file", id)
	case lost > 0:
		g.add(Warn, "The file could not be written for a while: check its log.", "%s has lost %s since its start", id, format.Plural(int(lost), "line"))
	default:
		g.ok("%s writes its file", id)
	}
}

// sums compares the checksums of replicas' states after the same entry.
func sums(s *Seen, g *gathered) {
	type summed struct {
		id  string
		sum float64
	}
	first := map[float64]summed{}
	var differ []string
	same := 0
	s.eachFigures(func(id string, at *Server) {
		for _, f := range []ask.Metrics{at.Figures, at.Later} {
			index, ok := f.Value("stout_state_checksum_index")
			sum, _ := f.Value("stout_state_checksum")
			if !ok || index == 0 {
				continue
			}
			switch known, seen := first[index]; {
			case !seen:
				first[index] = summed{id, sum}
			case known.id == id:
			case known.sum != sum:
				differ = append(differ, known.id+" and "+id)
			default:
				same++
			}
		}
	})
	switch {
	case len(differ) > 0:
		g.add(Bad, "One of them is damaged. Stop and replace the replica that is not the master (docs/operations.md, When a data directory is damaged).", "%s have different states after the same entry", list(differ))
	case same > 0:
		g.ok("equal checksums where the replicas report the same entry")
	}
}
