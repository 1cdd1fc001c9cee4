package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// wellCell is a cell of three with which nothing is the matter, on three hosts.
func wellCell() *Seen {
	s := &Seen{
		At: now, For: 3 * time.Second, Version: "v1.2.0",
		Cell:       &lockapi.Cell{Epoch: 7, Access: true, Level: 3, Master: &lockapi.MasterRef{ID: "r1"}, Lease: lockapi.Lease{Held: true, TermMS: 750, RemainingMS: 700}},
		Members:    &lockapi.Members{Tolerates: 1},
		Credential: Credential{Token: true, Who: &lockapi.WhoAmI{Principal: "user:ops", How: lockapi.HowToken}},
	}
	for i := range 3 {
		id, host := fmt.Sprintf("r%d", i+1), fmt.Sprintf("10.0.0.%d", i+1)
		up := int64(86_400_000)
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: id}, NotAfter: now.Add(90 * 24 * time.Hour)}
		ca := &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, NotAfter: now.Add(900 * 24 * time.Hour)}
		s.Servers = append(s.Servers, &Server{
			URL: "https://" + host + ":7101", Named: true, Members: []string{id}, Host: host, Literal: true, Addresses: []string{host},
			Dials: []Dial{{Address: host, Took: time.Millisecond}},
			TLS:   &Handshake{Version: tls.VersionTLS13, Shown: []*x509.Certificate{leaf}, Trusted: []*x509.Certificate{leaf, ca}},
			Took:  2 * time.Millisecond, CellID: "c0ffee", Dated: true, Date: Interval{-900 * time.Millisecond, 200 * time.Millisecond},
			Replica: &lockapi.Replica{ID: id, Version: "v1.2.0", UptimeMS: &up, RaftAddr: host + ":7201"},
			Figures: figuresOf(wellFigures), Samples: samplesAt(0),
		})
		role := lockapi.RoleReplica
		if i == 0 {
			role = lockapi.RoleMaster
		}
		s.Members.Members = append(s.Members.Members, lockapi.Member{ID: id, Directory: fmt.Sprint(i), Suffrage: lockapi.SuffrageVoter, Role: role, Healthy: true, Version: "v1.2.0"})
	}
	return s
}

const wellFigures = `
stout_is_master 1
stout_wait_cycles 0
stout_lease_term_seconds 0.75
stout_raft_elections_total 2
# TYPE stout_disk_sync_duration_seconds histogram
stout_disk_sync_duration_seconds_bucket{le="0.01"} 990
stout_disk_sync_duration_seconds_bucket{le="0.1"} 1000
stout_disk_sync_duration_seconds_bucket{le="0.25"} 1000
stout_disk_sync_duration_seconds_bucket{le="0.5"} 1000
stout_disk_sync_duration_seconds_bucket{le="+Inf"} 1000
stout_disk_sync_duration_seconds_sum 3
stout_disk_sync_duration_seconds_count 1000
# TYPE stout_lease_renewal_margin_seconds histogram
stout_lease_renewal_margin_seconds_bucket{le="0"} 0
stout_lease_renewal_margin_seconds_bucket{le="0.15"} 1
stout_lease_renewal_margin_seconds_bucket{le="0.45"} 100
stout_lease_renewal_margin_seconds_bucket{le="+Inf"} 1000
stout_lease_renewal_margin_seconds_sum 600
stout_lease_renewal_margin_seconds_count 1000
stout_quota_max{quota="max-sessions"} 100
stout_quota_max{quota="max-waiters"} 0
stout_quota_used{quota="max-sessions"} 79
stout_quota_used{quota="max-waiters"} 79
process_open_fds 100
process_max_fds 20000
stout_http_connections 79
stout_http_max_connections 100
stout_certificate_expiry_timestamp_seconds{use="raft",part="certificate"} 1809000000
stout_certificate_reloads_total{use="api",result="refused"} 0
stout_backup_last_timestamp_seconds 1777633200
stout_backups_failed_total 0
stout_audit_failing 0
stout_snapshot_failures_total 0
stout_snapshot_last_success_timestamp_seconds 1777633200
stout_disk_free_bytes 8589934592
stout_audit_lines_total{result="lost"} 0
stout_state_checksum_index 4096
stout_state_checksum 77
`

func figuresOf(text string) ask.Metrics {
	f, err := ask.ReadMetrics(strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	return f
}

// with replaces metrics of a replica: each line replaces the one with the same
// text up to its last blank.
func (s *Server) with(lines ...string) {
	text := wellFigures
	for _, line := range lines {
		name := line[:strings.LastIndex(line, " ")+1]
		i := strings.Index(text, "\n"+name)
		if i < 0 {
			panic("no metric " + name)
		}
		rest := text[i+1:]
		text = text[:i+1] + line + rest[strings.Index(rest, "\n"):]
	}
	s.Figures = figuresOf(text)
}

// samplesAt returns samples of a clock that runs faster by rate, over 10 s,
// each taking a millisecond.
func samplesAt(rate float64) (out []Sample) {
	for i := range 11 {
		t := time.Duration(i) * time.Second
		up := time.Duration(float64(t+time.Millisecond/2) * (1 + rate))
		out = append(out, Sample{t, t + time.Millisecond, 5000 + up.Milliseconds()})
	}
	return out
}

// tornBy are samples of a clock that makes a step.
func tornBy(ms int64) []Sample {
	out := samplesAt(0)
	for i := range out[7:] {
		out[7+i].UptimeMS += ms
	}
	return out
}

func clockSeen(differs, off float64) ask.Metrics {
	return figuresOf(fmt.Sprintf("%sstout_member_clock_rate_difference_ratio{replica=\"r1\"} 1\nstout_member_clock_rate_difference_ratio{replica=\"r2\"} %g\nstout_member_clock_rate_error_ratio{replica=\"r2\"} %g\n", wellFigures, differs, off))
}

func certUntil(d time.Duration) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: "x"}, NotAfter: now.Add(d)}
}

// Each row changes one thing of a healthy cell, and names the only finding that
// is then not ok.
func TestFindings(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		name   string
		change func(s *Seen, r1 *Server)
		want   string // "check: verdict", or empty: all is well
		found  string // part of what was found
	}{
		{"all is well", func(*Seen, *Server) {}, "", ""},

		{"a name that is not known", func(_ *Seen, r *Server) { r.Literal, r.LookupErr, r.Host = false, errors.New("no such host"), "db" }, "names: bad", "db: no such host"},
		{"a slow resolver", func(_ *Seen, r *Server) { r.Literal, r.LookedUp = false, slowLookup }, "names: warn", "500ms"},
		{"one just not slow", func(_ *Seen, r *Server) { r.Literal, r.LookedUp = false, slowLookup-1 }, "", ""},
		{"one of two addresses is dead", func(_ *Seen, r *Server) {
			r.Dials = append(r.Dials, Dial{Address: "10.9.9.9", Err: errors.New("refused")})
		}, "connect: warn", "10.9.9.9 does not connect"},
		{"a server that does not connect", func(_ *Seen, r *Server) {
			r.Dials[0].Err, r.Err, r.Replica = errors.New("refused"), errors.New("refused"), nil
			r.TLS = nil
		}, "connect: warn", "refused"},
		{"a long way", func(_ *Seen, r *Server) { r.Dials[0].Took = slowDial }, "connect: warn", "200ms"},
		{"a proxy", func(_ *Seen, r *Server) { r.Proxy = "http://proxy:3128" }, "proxy: warn", "http://proxy:3128"},
		{"one that hangs", func(_ *Seen, r *Server) { r.Err, r.Replica, r.TLS = errors.New("no answer in time"), nil, nil }, "answers: bad", "no answer in time"},
		{"one that tells us nothing", func(_ *Seen, r *Server) {
			r.Err, r.Replica = lockapi.Errorf(lockapi.CodePermissionDenied, "observe"), nil
		}, "answers: warn", "permission_denied"},
		{"a slow answer", func(_ *Seen, r *Server) { r.Took = slowAnswer }, "latency: warn", "250ms"},
		{"no tls there", func(_ *Seen, r *Server) { r.TLS = &Handshake{Err: errors.New("not a TLS handshake")} }, "tls: bad", "not a TLS handshake"},
		{"one that hangs before its certificate", func(_ *Seen, r *Server) {
			r.Err, r.Replica, r.TLS = ask.ErrNoAnswer, nil, &Handshake{Err: ask.ErrNoAnswer}
		}, "answers: bad", "no answer in time"},
		{"another CA", func(_ *Seen, r *Server) { r.TLS.Distrust = x509.UnknownAuthorityError{} }, "tls: bad", "a CA that is not trusted here"},
		{"another name", func(_ *Seen, r *Server) {
			r.TLS.Distrust = x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"db.local"}}, Host: "10.0.0.1"}
		}, "tls: bad", "10.0.0.1"},
		{"a certificate that ends", func(_ *Seen, r *Server) { r.TLS.Trusted = []*x509.Certificate{certUntil(certSoon - 1)} }, "certificates: warn", "13 days"},
		{"one that just lasts", func(_ *Seen, r *Server) { r.TLS.Trusted = []*x509.Certificate{certUntil(certSoon)} }, "", ""},
		{"one that is over", func(_ *Seen, r *Server) { r.TLS.Trusted = []*x509.Certificate{certUntil(0)} }, "certificates: bad", "0 days ago"},
		{"a CA that ends", func(_ *Seen, r *Server) { r.TLS.Trusted[1] = certUntil(day) }, "certificates: warn", `CA "x" expires in 1 day`},
		{"plain text", func(_ *Seen, r *Server) { r.URL, r.TLS = "http://10.0.0.1:7101", nil }, "encryption: warn", "http://10.0.0.1:7101"},
		{"two cells", func(_ *Seen, r *Server) { r.CellID = "other" }, "one cell: bad", "other at https://10.0.0.1:7101"},
		{"a wall clock ahead", func(_ *Seen, r *Server) { r.Date = Interval{wallWarn, wallWarn + time.Second} }, "wall clock: warn", "ahead of this host by at least 5s"},
		{"one that may be ahead", func(_ *Seen, r *Server) { r.Date = Interval{wallWarn - 1, wallWarn + time.Second} }, "", ""},
		{"one far behind", func(_ *Seen, r *Server) { r.Date = Interval{-wallBad - time.Second, -wallBad} }, "wall clock: bad", "behind"},
		{"a JWT that ends", func(s *Seen, _ *Server) { s.TokenEnds = now.Add(tokenSoon - 1) }, "token: warn", "expires in 59m59s"},
		{"one that is over", func(s *Seen, _ *Server) { s.TokenEnds = now }, "token: bad", "expired"},
		{"one that lasts", func(s *Seen, _ *Server) { s.TokenEnds = now.Add(tokenSoon) }, "", ""},
		{"a token that is refused", func(s *Seen, _ *Server) {
			s.Who, s.WhoErr = nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "no such token")
		}, "who we are: bad", "no such token"},
		{"nobody, with access on", func(s *Seen, _ *Server) {
			s.Token, s.Who = false, &lockapi.WhoAmI{Principal: "anonymous", How: lockapi.HowNone}
		}, "who we are: warn", "no credential"},
		{"an older client", func(s *Seen, _ *Server) { s.Version = "v1.1.0" }, "this program: warn", "stout is v1.1.0, but r1 runs v1.2.0"},

		{"no master", func(s *Seen, _ *Server) { s.Cell.Master = nil }, "master: bad", "has no master"},
		{"a master without its lease", func(s *Seen, _ *Server) { s.Cell.Lease.Held = false }, "master: bad", "does not hold its lease"},
		{"no failure is tolerated", func(s *Seen, _ *Server) { s.Members.Tolerates = 0 }, "tolerance: bad", "but 1 with all voters"},
		{"a cell of one", func(s *Seen, _ *Server) { s.Members.Tolerates, s.Members.Members = 0, s.Members.Members[:1] }, "tolerance: warn", "1 replica with a vote"},
		{"four", func(s *Seen, _ *Server) {
			s.Members.Members = append(s.Members.Members, lockapi.Member{ID: "r4", Suffrage: lockapi.SuffrageVoter, Healthy: true})
		}, "tolerance: warn", "with 4 voters"},
		{"a member that is not heard", func(s *Seen, _ *Server) { s.Members.Members[2].Healthy = false }, "members: warn", "does not reach r3"},
		{"a member without a vote", func(s *Seen, _ *Server) {
			s.Members.Members = append(s.Members.Members, lockapi.Member{ID: "r4", Suffrage: lockapi.SuffrageNonvoter, Healthy: true})
		}, "members: warn", "r4 has no vote"},
		{"a change under way", func(s *Seen, _ *Server) {
			s.Members.Members = append(s.Members.Members, lockapi.Member{ID: "r3", Suffrage: lockapi.SuffrageNonvoter, Healthy: true})
		}, "members: warn", "the directory of r3 is being replaced"},
		{"one whose new directory may never come", func(s *Seen, _ *Server) {
			s.Members.Members[2].Directory = "0123456789abcdef"
			s.Members.Members = append(s.Members.Members, lockapi.Member{ID: "r3", Directory: "00c0ffee00c0ffee", Suffrage: lockapi.SuffrageNonvoter})
		}, "members: warn", "the new directory 00c0ffee00c0ffee of r3 is not reached"},
		{"one whose old directory says what no command is to say", func(s *Seen, _ *Server) {
			s.Members.Members[2].Directory = "x; curl evil"
			s.Members.Members = append(s.Members.Members, lockapi.Member{ID: "r3", Suffrage: lockapi.SuffrageNonvoter})
		}, "members: warn", "the directory of r3 is being replaced"},
		{"a lag", func(s *Seen, _ *Server) { s.Members.Members[1].Behind = lagWarn + 1 }, "lag: warn", "r2 is 65 entries behind"},
		{"one just not", func(s *Seen, _ *Server) { s.Members.Members[1].Behind = lagWarn }, "", ""},
		{"a large one", func(s *Seen, _ *Server) { s.Members.Members[1].Behind = lagBad + 1 }, "lag: bad", "10001"},
		{"a lag of one whose own snapshots fail", func(s *Seen, _ *Server) {
			s.Members.Members[1].Behind = lagWarn + 1
			s.Servers[1].with("stout_snapshot_failures_total 1")
		}, "lag: warn", "r2 is 65 entries behind"},
		{"a lag for want of a snapshot", func(s *Seen, r *Server) {
			s.Members.Members[1].Behind = lagWarn + 1
			r.with("stout_snapshot_failures_total 9")
		}, "lag: bad", "r2 is 65 entries behind, and r1 fails to send it a snapshot"},
		{"half an upgrade", func(s *Seen, _ *Server) { s.Members.Members[1].Version = "v1.3.0" }, "releases: warn", "r1, r3 run v1.2.0, r2 run v1.3.0"},
		{"a URL of another network", func(_ *Seen, r *Server) {
			r.Named, r.Err, r.Replica, r.Dials, r.TLS = false, errors.New("no route"), nil, nil, nil
			r.Proxy = ""
		}, "members' URLs: warn", "cannot be reached from here"},
		{"another at a member's URL", func(_ *Seen, r *Server) { r.Members = []string{"r9"} }, "members' URLs: bad", "but r1 answers there"},
		{"access off", func(s *Seen, _ *Server) { s.Cell.Access = false }, "access: warn", "off"},
		{"access off at home", func(s *Seen, _ *Server) {
			s.Cell.Access = false
			for _, at := range s.Servers {
				at.Addresses = []string{"127.0.0.1"}
			}
		}, "", ""},
		{"a cycle of waits", func(_ *Seen, r *Server) { r.with("stout_wait_cycles 1") }, "", ""},

		{"no metrics", func(_ *Seen, r *Server) { r.Figures, r.FiguresErr = nil, errors.New("denied") }, "metrics: cannot tell", "r1 shows no metrics: denied"},
		{"a disk at the edge", func(_ *Seen, r *Server) { r.with(`stout_disk_sync_duration_seconds_bucket{le="0.01"} 989`) }, "", ""},
		{"a slow disk", func(_ *Seen, r *Server) {
			r.with(`stout_disk_sync_duration_seconds_bucket{le="0.01"} 0`, `stout_disk_sync_duration_seconds_bucket{le="0.1"} 989`)
		}, "disk: warn", "99 of 100 writes within 250ms"},
		{"one too slow", func(_ *Seen, r *Server) {
			r.with(`stout_disk_sync_duration_seconds_bucket{le="0.01"} 0`, `stout_disk_sync_duration_seconds_bucket{le="0.1"} 0`,
				`stout_disk_sync_duration_seconds_bucket{le="0.25"} 0`, `stout_disk_sync_duration_seconds_bucket{le="0.5"} 989`)
		}, "disk: bad", "more than 1 of 100"},
		{"too few writes", func(_ *Seen, r *Server) {
			r.with(`stout_disk_sync_duration_seconds_bucket{le="+Inf"} 49`, "stout_disk_sync_duration_seconds_count 49")
		}, "disk: cannot tell", "49 times"},
		{"a snapshot that failed", func(_ *Seen, r *Server) { r.with("stout_snapshot_failures_total 1") }, "snapshots: warn", "snapshots of r1 failed 1 time since its start; last one written 1h00m"},
		{"snapshots that fail", func(_ *Seen, r *Server) {
			r.with("stout_snapshot_failures_total 1", "stout_snapshot_last_success_timestamp_seconds 0")
			r.Later = figuresOf("stout_snapshot_failures_total 3\nstout_snapshot_last_success_timestamp_seconds 0\n")
		}, "snapshots: bad", "snapshots of r1 failed 2 times during this check; no snapshot written"},
		{"elections", func(_ *Seen, r *Server) { r.with("stout_raft_elections_total 25") }, "elections: warn", "25 elections in 1d0h"},
		{"few for their time", func(_ *Seen, r *Server) { r.with("stout_raft_elections_total 24") }, "", ""},
		{"one while we look", func(_ *Seen, r *Server) { r.Later = figuresOf("stout_raft_elections_total 3\n") }, "elections: warn", "during this check"},
		{"a lapse", func(_ *Seen, r *Server) { r.with(`stout_lease_renewal_margin_seconds_bucket{le="0"} 1`) }, "lease: warn", "lost its lease 1 time"},
		{"a thin margin", func(_ *Seen, r *Server) { r.with(`stout_lease_renewal_margin_seconds_bucket{le="0.15"} 11`) }, "lease: warn", "in 11 of 1000"},
		{"just not", func(_ *Seen, r *Server) { r.with(`stout_lease_renewal_margin_seconds_bucket{le="0.15"} 10`) }, "", ""},
		{"a fast clock", func(_ *Seen, r *Server) { r.Samples = samplesAt(0.021) }, "clock rates: bad", "r1 and r2 differ by at least"},
		{"one that is faster than allowed", func(_ *Seen, r *Server) { r.Samples = samplesAt(0.0105) }, "clock rates: warn", "r1 and r2"},
		{"one that is just allowed", func(_ *Seen, r *Server) { r.Samples = samplesAt(0.0095) }, "", ""},
		{"a short look", func(_ *Seen, r *Server) { r.Samples = r.Samples[:2]; r.Samples[1].Received += 20 * time.Millisecond }, "clock rates: cannot tell", "at most"},
		{"a clock that stood still", func(_ *Seen, r *Server) { r.Samples = tornBy(-600) }, "clock rates: bad", "r1 stopped or stepped during this check: it differed from r"},
		{"the last one's", func(s *Seen, _ *Server) { s.Servers[2].Samples = tornBy(-600) }, "clock rates: bad", "clock of r3 stopped"},
		{"ours that stood still", func(s *Seen, _ *Server) {
			for _, at := range s.Servers {
				at.Samples = tornBy(600)
			}
		}, "clock rates: cannot tell", "at once"},
		{"a restart", func(_ *Seen, r *Server) { r.Samples[5].UptimeMS = 1 }, "clock rates: cannot tell", "restarted"},
		{"a drift that replicas allow", func(_ *Seen, r *Server) {
			r.Samples, r.Figures = samplesAt(0.021), figuresOf(wellFigures+"stout_clock_rate_difference_max_ratio 0.05\n")
		}, "", ""},
		{"a drift that they do not", func(_ *Seen, r *Server) {
			r.Samples, r.Figures = samplesAt(0.009), figuresOf(wellFigures+"stout_clock_rate_difference_max_ratio 0.002\n")
		}, "clock rates: bad", "r1 and r2 differ by at least"},
		{"a clock as another sees it", func(_ *Seen, r *Server) { r.Figures = clockSeen(-0.0255, 0.005) }, "peers' clocks: bad", "r1 measured that r2 differs by at least 20 ms/s"},
		{"one that may be well", func(_ *Seen, r *Server) { r.Figures = clockSeen(0.0249, 0.015) }, "", ""},
		{"one that is hardly known yet", func(_ *Seen, r *Server) { r.Figures = clockSeen(0, 0.03) }, "peers' clocks: cannot tell", "within 30 ms/s"},
		{"another timing", func(_ *Seen, r *Server) { r.with("stout_lease_term_seconds 0.9") }, "timing: warn", "r2, r3 750ms"},
		{"a quota nearly used", func(_ *Seen, r *Server) { r.with(`stout_quota_used{quota="max-sessions"} 80`) }, "quotas: warn", "max-sessions is 80% used"},
		{"one used up", func(_ *Seen, r *Server) { r.with(`stout_quota_used{quota="max-sessions"} 95`) }, "quotas: bad", "95 of 100"},
		{"files", func(_ *Seen, r *Server) { r.with("process_open_fds 16000") }, "open files: warn", "16000 of 20000"},
		{"files used up", func(_ *Seen, r *Server) { r.with("process_open_fds 19000") }, "open files: bad", "19000"},
		{"few files", func(_ *Seen, r *Server) { r.with("process_open_fds 1", "process_max_fds 1023") }, "open files: warn", "1023"},
		{"connections", func(_ *Seen, r *Server) { r.with("stout_http_connections 80") }, "connections: warn", "80 of 100"},
		{"connections used up", func(_ *Seen, r *Server) { r.with("stout_http_connections 95") }, "connections: bad", "95 of 100"},
		{"the raft certificate ends", func(_ *Seen, r *Server) {
			r.with(fmt.Sprintf(`stout_certificate_expiry_timestamp_seconds{use="raft",part="certificate"} %d`, now.Add(certSoon).Unix()-1))
		}, "certificates: warn", "raft certificate expires in 13 days"},
		{"new certificates are refused", func(_ *Seen, r *Server) { r.with(`stout_certificate_reloads_total{use="api",result="refused"} 2`) }, "certificates: warn", "2 times"},
		{"no tls between replicas", func(_ *Seen, r *Server) {
			r.Figures = figuresOf(strings.ReplaceAll(wellFigures, `use="raft"`, `use="api"`))
		}, "replicas' port: warn", "r1 connect without TLS"},
		{"no backup", func(_ *Seen, r *Server) { r.with("stout_backup_last_timestamp_seconds 0") }, "backups: warn", "since they started: r1"},
		{"an old backup", func(_ *Seen, r *Server) {
			r.with(fmt.Sprintf("stout_backup_last_timestamp_seconds %d", now.Add(-backupOld).Unix()-1))
		}, "backups: warn", "1d2h ago"},
		{"a backup that failed", func(_ *Seen, r *Server) { r.with("stout_backups_failed_total 1") }, "backups: warn", "1 backup "},
		{"the disk is filling", func(_ *Seen, r *Server) { r.with("stout_disk_free_bytes 4e8") }, "disk space: warn", "r1 has 381 MiB left"},
		{"the disk is nearly full", func(_ *Seen, r *Server) { r.with("stout_disk_free_bytes 4e7") }, "disk space: bad", "r1 has 38 MiB left"},
		{"the audit log fails", func(_ *Seen, r *Server) { r.with("stout_audit_failing 1") }, "audit log: bad", "r1"},
		{"the audit log lost lines", func(_ *Seen, r *Server) { r.with(`stout_audit_lines_total{result="lost"} 3`) }, "audit log: warn", "3 lines"},
		{"states that differ", func(_ *Seen, r *Server) { r.with("stout_state_checksum 78") }, "state: bad", "r1 and r2"},
		{"of different entries", func(_ *Seen, r *Server) { r.with("stout_state_checksum 78", "stout_state_checksum_index 8192") }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := wellCell()
			c.change(s, s.Servers[0])
			report := Examine(s)
			var got []string
			for _, f := range report.Findings {
				if f.Verdict == OK {
					continue
				}
				got = append(got, f.Check+": "+f.Verdict.String())
				if f.Do == "" && f.Verdict != Unknown {
					t.Errorf("%s: nothing is said to do about %q", f.Check, f.Found)
				}
				if c.want != "" && strings.HasPrefix(c.want, f.Check+":") && !strings.Contains(f.Found, c.found) {
					t.Errorf("found %q, without %q", f.Found, c.found)
				}
			}
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) || len(got) > 2 {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The cure for a master with a slow disk, or without a lease, begins with another master.
func TestCuresOfAMaster(t *testing.T) {
	t.Parallel()
	s := wellCell()
	s.Cell.Lease.Held = false
	s.Servers[0].with(`stout_disk_sync_duration_seconds_bucket{le="0.01"} 0`)
	s.Servers[1].with(`stout_disk_sync_duration_seconds_bucket{le="0.01"} 0`, "stout_is_master 0")
	for _, f := range slices.Concat(findings("master", s), findings("disk", s)) {
		if names := strings.Contains(f.Do, "stout transfer"); names != (f.Verdict != OK && !strings.HasPrefix(f.Found, "r2")) {
			t.Errorf("%s: %s", f.Found, f.Do)
		}
	}
}

// A replacement that its old directory has overtaken is ended by the command that is
// shown.
func TestReplacementIsTakenBack(t *testing.T) {
	t.Parallel()
	s := wellCell()
	s.Members.Members[2].Directory = "0123456789abcdef"
	s.Members.Members = append(s.Members.Members, lockapi.Member{ID: "r3", Directory: "00c0ffee00c0ffee", Suffrage: lockapi.SuffrageNonvoter})
	f := findings("members", s)
	if len(f) != 1 || !strings.Contains(f[0].Do, "stout member replace r3 --directory 0123456789abcdef.") {
		t.Errorf("%+v", f)
	}
}

// If no server answers, the advice does not refer to other replicas, and the
// identity is unknown.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{false, true} {
		s := wellCell()
		for i, at := range s.Servers {
			if i == 0 || !others {
				at.Dials, at.Err, at.Replica, at.TLS = []Dial{{Err: errors.New("refused")}}, errors.New("refused"), nil, nil
			}
		}
		f := findings("connect", s)
		if i := slices.IndexFunc(f, func(f Finding) bool { return strings.Contains(f.Do, "the other replicas serve") }); i >= 0 != others {
			t.Errorf("others %v: %+v", others, f)
		}
	}
	s := &Seen{Servers: []*Server{{Err: errors.New("refused")}}}
	l := &Prober{Step: time.Second, Cell: func(context.Context, time.Duration) (lockapi.Cell, error) {
		return lockapi.Cell{}, errors.New("no server answers")
	}}
	l.askCell(t.Context(), s)
	l.askWho(t.Context(), s)
	if s.WhoErr == nil || s.WhoErr.Error() != "no server answers" {
		t.Errorf("who we are: %v", s.WhoErr)
	}
}

// findings returns the findings of one check.
func findings(check string, s *Seen) []Finding {
	return slices.DeleteFunc(Examine(s).Findings, func(f Finding) bool { return f.Check != check })
}

// A lapsed lease that was never renewed has no margin and no finding.
func TestLeaseIsNotPraised(t *testing.T) {
	t.Parallel()
	for _, f := range findings("lease", wellCell()) {
		if strings.Contains(f.Found, "never") {
			t.Errorf("%+v", f)
		}
	}
}

func TestRateOf(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0, 0.001, -0.001, 0.02, -0.5} {
		r, ok := RateOf(samplesAt(rate))
		if !ok || r.Low > rate || r.High < rate {
			t.Errorf("rate %g: got %+v, %v", rate, r, ok)
		}
		if wide := r.High - r.Low; wide > 0.0005 {
			t.Errorf("rate %g: known within %g only, of 10 s", rate, wide)
		}
	}
	for name, samples := range map[string][]Sample{"none": nil, "one": samplesAt(0)[:1]} {
		if r, ok := RateOf(samples); ok {
			t.Errorf("%s: a rate %+v", name, r)
		}
	}
	// A clock that stopped or stepped during this check.
	for name, by := range map[string]int64{"stood still": -600, "stepped": 3_000} {
		r, ok := RateOf(tornBy(by))
		if !ok || !r.Torn || (by < 0) != (r.High < -0.02) || (by > 0) != (r.Low > 0.02) {
			t.Errorf("a clock that %s: %+v, %v", name, r, ok)
		}
	}
}

func TestEndOf(t *testing.T) {
	t.Parallel()
	jwt := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for token, want := range map[string]time.Time{
		jwt(`{"exp":1777636800}`):   now,
		jwt(`{"exp":1777636800.9}`): now,
		jwt(`{"sub":"x"}`):          {},
		jwt(`no`):                   {},
		"stout_abc":                 {},
		"a.!.c":                     {},
	} {
		if got := endOf(token); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", token, got, want)
		}
	}
}

// A checked metric that no replica has would go unnoticed.
func TestMetricsAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range figuresOf(wellFigures) {
		if !strings.HasPrefix(name, "process_") && !strings.Contains(string(reference), "`"+name+"`") {
			t.Errorf("docs/metrics.md has no %s", name)
		}
	}
}
