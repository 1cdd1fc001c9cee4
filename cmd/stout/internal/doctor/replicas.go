package doctor

import (
	"math"
	"net"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
)

const (
	nearlyUsed = 0.8 // of what is bounded, from where on to do something
	usedUp     = 0.95
	fewFiles   = 1024
	fewBytes   = 512 << 20      // as the alert StoutDiskSpaceLow has it
	fewWrites  = 50             // too few to judge a disk by
	backupOld  = 26 * time.Hour // a daily one, and some
	// defaultDrift is the default of clock-drift, for replicas that do not tell theirs.
	defaultDrift = 0.01
	// leaseOverHeartbeat is the default of master-lease in heartbeat-timeouts, which
	// no replica tells either.
	leaseOverHeartbeat = 1.5
)

// figures is whether there are any to judge.
func figures(s *Seen, g *gathered) {
	for _, at := range s.answered() {
		switch {
		case at.Figures != nil:
		case ask.IsDenial(at.FiguresErr):
			g.add(Unknown, "Ask with a credential that may observe the cell. Until then nothing below is told of it.", "%s shows no metrics: %v", at.Replica.ID, at.FiguresErr)
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

// disks judges the time of a write to the log against the heartbeat-timeout that
// the term of the lease stands for: a fifth of that is the most that it may take
// in the long run, and with the whole of it elections follow.
func disks(s *Seen, g *gathered, id string, at *Server) {
	p99, of := at.latest().Within(metricSync, 0.99)
	term, ok := at.Figures.Value(metricTerm)
	if !ok || of < fewWrites {
		g.add(Unknown, "", "%s has written %s since its start: too few to judge its disk by", id, format.Plural(int(of), "time"))
		return
	}
	beat := term / leaseOverHeartbeat
	text := "99 of 100 writes within " + took(seconds(p99))
	if math.IsInf(p99, 1) {
		text = "more than 1 of 100 writes takes longer than is counted"
	}
	do := "A faster disk, or one that others do not use; or a longer heartbeat-timeout on all replicas, at least five times that."
	if is, _ := at.latest().Value(metricMaster); is == 1 {
		do = "stout transfer makes another replica the master meanwhile. " + do
	}
	switch {
	case p99 > beat:
		g.add(Bad, do, "%s: %s of %d, and a master that is silent for about %s is deposed", id, text, of, took(seconds(beat)))
	case p99 > beat/5:
		g.add(Warn, do, "%s: %s of %d, more than a fifth of about %s, by which a silent master is deposed", id, text, of, took(seconds(beat)))
	default:
		g.ok("%s %s", id, text)
	}
}

// space reports whether the data directories have room: a full disk ends a replica.
func space(s *Seen, g *gathered, id string, at *Server) {
	left, ok := at.latest().Value(metricFree)
	const do = "Make room on the file system of its data-dir, or enlarge it: a full disk ends the replica (exit code 74)."
	switch {
	case !ok:
	case left < fewBytes:
		g.add(worse(left < fewBytes/8), do, "%s has %.0f MiB left", id, left/(1<<20))
	default:
		g.ok("%s %.1f GiB left", id, left/(1<<30))
	}
}

// snapshots reports whether the replicas can write their snapshots and send them.
func snapshots(s *Seen, g *gathered, id string, at *Server) {
	n, ok := at.Figures.Value(metricUnsnapped)
	later, _ := at.Later.Value(metricUnsnapped)
	const do = "Its log has the reason. Look at the room and at the owner of the directory snapshots in its data-dir. If it is the master, stout transfer makes another replica the master meanwhile."
	last := "it has written none since its start"
	if written, _ := at.latest().Value(metricSnapped); written > 0 {
		last = "it wrote the last one " + took(s.At.Sub(time.Unix(int64(written), 0))) + " ago"
	}
	switch {
	case !ok:
	case later > n:
		g.add(Bad, do, "snapshots of %s failed %s while it was looked at; %s", id, format.Plural(int(later-n), "time"), last)
	case n > 0:
		g.add(Warn, do, "snapshots of %s failed %s since its start; %s", id, format.Plural(int(n), "time"), last)
	default:
		g.ok("%s without a failure", id)
	}
}

// failsSnapshots reports whether snapshots of a replica have failed.
func (s *Seen) failsSnapshots(id string) (fails bool) {
	s.eachFigures(func(of string, at *Server) {
		n, _ := at.latest().Value(metricUnsnapped)
		fails = fails || of == id && n > 0
	})
	return fails
}

// masterWithoutSnapshots is the master if its snapshots have failed, else empty.
func (s *Seen) masterWithoutSnapshots() string {
	if s.Cell == nil || s.Cell.Master == nil || !s.failsSnapshots(s.Cell.Master.ID) {
		return ""
	}
	return s.Cell.Master.ID
}

// stability is whether mastership stays where it is.
func stability(s *Seen, g *gathered, id string, at *Server) {
	n, ok := at.Figures.Value(metricElections)
	if !ok || at.Replica.UptimeMS == nil {
		return
	}
	up := time.Duration(*at.Replica.UptimeMS) * time.Millisecond
	const do = "Mastership that moves means slow disks, an overloaded machine, a bad network, or a heartbeat-timeout that is too short."
	if later, ok := at.Later.Value(metricElections); ok && later > n {
		g.add(Warn, do, "%s campaigned while it was looked at", id)
		return
	}
	if n >= 4 && up < time.Duration(n)*time.Hour {
		g.add(Warn, do, "%s campaigned %.0f times in %s", id, n, took(up))
		return
	}
	g.ok("%s %.0f in %s", id, n, took(up))
}

// margins is how much of its lease a master had left when it was renewed.
func margins(s *Seen, g *gathered, id string, at *Server) {
	_, of := at.Figures.Within(metricMargin, 1)
	if of == 0 {
		return // it never was the master
	}
	term, _ := at.Figures.Value(metricTerm)
	lapsed, thin := at.Figures.UpTo(metricMargin, 0), at.Figures.UpTo(metricMargin, term/5)
	const do = "Entries take too long to get to a majority: look at the disks and at the network between the replicas. If it is the fault of the master, stout transfer makes another replica the master."
	switch {
	case lapsed > 0:
		g.add(Warn, do, "%s as master let its lease lapse %s, of %d renewals since its start", id, format.Plural(int(lapsed), "time"), of)
	case float64(thin) > 0.01*float64(of):
		g.add(Warn, do, "%s as master had less than a fifth of its lease left in %d of %d renewals", id, thin, of)
	default:
		g.ok("%s as master was in time with each of %s", id, format.Plural(int(of), "renewal"))
	}
}

// clockRates compares the clocks of the replicas with each other.
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
			g.add(Unknown, "", "%s: no rate can be told from %d looks; was it started anew meanwhile?", at.Replica.ID, len(at.Samples))
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
		g.add(Unknown, "", "a clock stood still or stepped while it was looked at, all at once: it may have been that of this machine. Look again.")
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
			case b.Torn: // each by one that is not; of two different moments nothing follows
			case a.Torn && least > allowed:
				g.add(Bad, mendClocks, "%s's clock stood still or stepped while it was looked at: it differed from %s's by at least %s", a.id, b.id, parts(least))
			case least > allowed/2:
				g.add(worse(least > allowed), mendClocks, "%s and %s differ by at least %s", a.id, b.id, parts(least))
			case most > allowed/2:
				g.add(Unknown, "Look for longer: --for 30s.", "%s and %s differ by at most %s, which is as fine as %s of looking tells", a.id, b.id, parts(most), took(s.For))
			default:
				g.ok("%s and %s differ by at most %s", a.id, b.id, parts(most))
			}
		}
	}
}

const mendClocks = "Leases rely on clocks that run alike to within what clock-drift allows (0.01 unless it was set). Is a virtual machine starved, or badly slewed by NTP? Mend that, or raise clock-drift on all replicas."

// allowedDrift is how much the rates of two clocks may differ: the least that
// replicas say, else what the default of clock-drift allows to both.
func (s *Seen) allowedDrift() float64 {
	least := math.Inf(1)
	s.eachFigures(func(_ string, at *Server) {
		if a, ok := at.Figures.Value(metricClockMost); ok && a > 0 {
			least = min(least, a)
		}
	})
	if math.IsInf(least, 1) {
		return 2 * defaultDrift
	}
	return least
}

// clocksOfOthers is what the replicas found out of each other's clocks themselves,
// over a longer time than one looks at them here.
func clocksOfOthers(s *Seen, g *gathered, id string, at *Server) {
	allowed := s.allowedDrift()
	at.latest().Each(metricClock, func(label func(string) string, differs float64) {
		other := label("replica")
		off, _ := at.latest().Value(metricClockError, "replica", other)
		switch least := math.Abs(differs) - off; {
		case other == id:
		case least > allowed/2:
			g.add(worse(least > allowed), mendClocks, "%s sees %s differ by at least %s", id, other, parts(least))
		case off > allowed:
			g.add(Unknown, "", "%s knows %s's only to within %s so far", id, other, parts(off))
		default:
			g.ok("%s of %s within %s", id, other, parts(math.Abs(differs)+off))
		}
	})
}

// terms is whether all replicas have the same timing.
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
		g.ok("the lease's term is %s on all that show it", ran[0].what)
	default:
		var words []string
		for _, r := range ran {
			words = append(words, list(r.who)+" "+r.what)
		}
		g.add(Warn, "Give all replicas the same heartbeat-timeout and master-lease.", "the leases' terms differ: %s", list(words))
	}
}

func quotas(s *Seen, g *gathered, id string, at *Server) {
	most, what := 0.0, ""
	at.Figures.Each(metricQuotaMax, func(label func(string) string, max float64) {
		quota := label("quota")
		used, ok := at.Figures.Value(metricQuotaUsed, "quota", quota)
		if !ok || max <= 0 {
			return
		}
		do := "Raise " + quota + " on all replicas, or find out who uses it: stout sessions, stout locks, stout ls."
		switch of := used / max; {
		case of >= nearlyUsed:
			g.add(worse(of >= usedUp), do, "%s: %s is used to %s (%.0f of %.0f)", id, quota, share(used, max), used, max)
		case of >= most:
			most, what = of, quota
		}
	})
	if what != "" {
		g.ok("%s at most %s", id, share(most, 1))
	}
}

func openFiles(s *Seen, g *gathered, id string, at *Server) {
	open, ok := at.Figures.Value(metricOpenFiles)
	limit, known := at.Figures.Value(metricMaxFiles)
	const do = "Raise the limit on open files of stoutd (LimitNOFILE of systemd, ulimit -n) and start it anew."
	switch {
	case !ok || !known || limit <= 0:
		g.add(Unknown, "", "%s does not tell of its files", id)
	case open/limit >= nearlyUsed:
		g.add(worse(open/limit >= usedUp), do, "%s has %.0f of %.0f open", id, open, limit)
	case limit < fewFiles:
		g.add(Warn, do, "%s may have %.0f open only: each waiting client takes one", id, limit)
	default:
		g.ok("%s %.0f of %.0f", id, open, limit)
	}
}

func sockets(s *Seen, g *gathered, id string, at *Server) {
	open, ok := at.Figures.Value(metricConns)
	limit, known := at.Figures.Value(metricMaxConns)
	const do = "Raise max-connections (and the limit on open files), or find out who opens so many."
	switch {
	case !ok || !known || limit <= 0:
	case open/limit >= nearlyUsed:
		g.add(worse(open/limit >= usedUp), do, "%s has %.0f of %.0f", id, open, limit)
	default:
		g.ok("%s %.0f of %.0f", id, open, limit)
	}
}

// replicaCertificates are those that the replicas tell of, the ones between them
// included.
func replicaCertificates(s *Seen, g *gathered, id string, at *Server) {
	const do = "Put a new one in its place; stoutd takes it up without a restart."
	at.Figures.Each(metricCertEnds, func(label func(string) string, ends float64) {
		what := label("use") + " " + label("part")
		switch left := time.Unix(int64(ends), 0).Sub(s.At); {
		case left <= 0:
			g.add(Bad, do, "%s: the %s ended %s ago", id, what, days(-left))
		case left < certSoon:
			g.add(Warn, do, "%s: the %s ends in %s", id, what, days(left))
		default:
			g.ok("%s for %s", what, days(left))
		}
	})
	if n, _ := at.Figures.Value(metricCertLoads, "result", "refused"); n > 0 {
		g.add(Warn, "The files are broken, and those before are in force until a restart: see its log.", "%s refused new certificates %s since its start", id, format.Plural(int(n), "time"))
	}
}

// between is whether replicas prove to each other who they are.
func between(s *Seen, g *gathered) {
	var open []string
	s.eachFigures(func(id string, at *Server) {
		host, _, err := net.SplitHostPort(at.Replica.RaftAddr)
		if _, secured := at.Figures.Value(metricCertEnds, "use", "raft"); err == nil && !isLoopback(host) && !secured {
			open = append(open, id)
		}
	})
	if len(open) > 0 {
		g.add(Warn, "raft-cert, raft-key and raft-ca have them prove who they are; until then a firewall has to keep everybody else from that port.", "%s take part without TLS", list(open))
	}
}

func backups(s *Seen, g *gathered) {
	var none []string
	s.eachFigures(func(id string, at *Server) {
		last, ok := at.Figures.Value(metricBackupAt)
		if !ok {
			return
		}
		if n, _ := at.Figures.Value(metricBackupFail); n > 0 {
			g.add(Warn, "Is backup-dir full, or not to be written? See its log.", "%s could not write %s since its start", id, format.Plural(int(n), "backup"))
		}
		age := s.At.Sub(time.Unix(int64(last), 0))
		switch {
		case last == 0:
			none = append(none, id)
		case age > backupOld:
			g.add(Warn, "If backup-every is less than that, see its log.", "%s wrote its last one %s ago", id, took(age))
		default:
			g.ok("%s wrote one %s ago", id, took(age))
		}
	})
	if len(none) > 0 {
		g.add(Warn, "Set backup-every and backup-dir, and give the first one time. Of what calls stout backup save nothing is seen here.", "none written by schedule since their start by %s", list(none))
	}
}

func auditLog(s *Seen, g *gathered, id string, at *Server) {
	failing, ok := at.Figures.Value(metricAuditFails)
	lost, _ := at.Figures.Value(metricAuditLines, "result", "lost")
	switch {
	case !ok:
	case failing == 1:
		g.add(Bad, "Make room on its disk, or have stoutd be allowed to write the file: with audit-required no change is made until then.", "%s can't write its file", id)
	case lost > 0:
		g.add(Warn, "The file could not be written for a while: see its log.", "%s has lost %s since its start", id, format.Plural(int(lost), "line"))
	default:
		g.ok("%s is written", id)
	}
}

// sums compares the states of replicas that were summed after the same entry.
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
			index, ok := f.Value(metricSumIndex)
			sum, _ := f.Value(metricSum)
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
		g.add(Bad, "One of them is damaged. Stop and replace the one that is not the master (docs/operations.md, When a data directory is damaged).", "%s have different states after the same entry", list(differ))
	case same > 0:
		g.ok("the same after the same entry, as far as they were summed alike")
	}
}
