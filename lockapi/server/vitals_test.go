package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/histogram"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/membership"
)

// wantSeries checks that the metrics have each line.
func wantSeries(t *testing.T, n *node, lines ...string) {
	t.Helper()
	page := "\n" + call(t, "GET", n.url+"/metrics", "").body
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			got := "no such series"
			for l := range strings.SplitSeq(page, "\n") {
				if strings.HasPrefix(l, name) {
					got = l
				}
			}
			t.Errorf("no %q: %s", line, got)
		}
	}
}

// of is a histogram of one duration.
func of(d time.Duration) histogram.Snapshot {
	h := histogram.New(0, 10*time.Millisecond, time.Second)
	h.Observe(d)
	return h.Snapshot()
}

// Each figure is shown under its name, in seconds where it is a time.
func TestVitals(t *testing.T) {
	n := startMaster(t, nil)
	n.setReplicas(lockapi.Replica{ID: "r1", URL: n.url}, lockapi.Replica{ID: "r2"})
	n.setVitals(master.Vitals{
		Lease: lease.View{Held: true, Remaining: 1250 * time.Millisecond}, LeaseTerm: 2 * time.Second,
		Sessions: 3, Locks: 4, Waiters: 5, Files: 15, Content: 16, Deadlocks: 2, Offices: 6, Expired: 7,
		Committed: of(5 * time.Millisecond), Margin: of(0), Waited: of(time.Minute),
		Held: of(2 * time.Minute), Kept: of(750 * time.Millisecond), Queued: of(time.Millisecond), Replied: of(5 * time.Millisecond),
		Linear: of(6 * time.Millisecond), Stale: of(7 * time.Millisecond), Barrier: of(8 * time.Millisecond), Outwaited: of(9 * time.Millisecond), Opening: of(10 * time.Millisecond),
		Replica: membership.Vitals{Term: 8, Last: 12, Committed: 11, Applied: 10, Elections: 13, Leaders: 14,
			Stored: of(time.Millisecond), Applying: of(500 * time.Millisecond),
			Disk: of(2 * time.Millisecond), Followers: of(3 * time.Millisecond), OwnApplied: of(4 * time.Millisecond),
			Detected: of(11 * time.Millisecond), Elected: of(12 * time.Millisecond),
			Snapshots: membership.Snapshots{Took: of(13 * time.Millisecond), Failures: 17, Last: time.UnixMilli(1_777_633_200_500)}},
	})
	wantSeries(t, n,
		"stout_ready 1", "stout_has_master 1", "stout_is_master 1", "stout_epoch 3", "stout_offices_total 6",
		"stout_lease_held 1", "stout_lease_remaining_seconds 1.25", "stout_lease_term_seconds 2",
		`stout_lease_renewal_margin_seconds_bucket{le="0"} 1`, "stout_lease_renewal_margin_seconds_count 1",
		`stout_commit_duration_seconds_bucket{le="0"} 0`, `stout_commit_duration_seconds_bucket{le="0.01"} 1`, "stout_commit_duration_seconds_sum 0.005",
		"stout_sessions 3", "stout_locks 4", "stout_waiters 5", "stout_files 15", "stout_content_bytes 16", "stout_deadlocks 2", "stout_sessions_expired_total 7",
		`stout_lock_wait_duration_seconds_bucket{le="1"} 0`, `stout_lock_wait_duration_seconds_bucket{le="+Inf"} 1`,
		"stout_raft_term 8", "stout_raft_last_index 12", "stout_raft_commit_index 11", "stout_raft_applied_index 10",
		"stout_raft_last_contact_seconds 0", "stout_raft_elections_total 13", "stout_raft_leader_changes_total 14",
		"stout_disk_sync_duration_seconds_sum 0.001", "stout_raft_apply_duration_seconds_sum 0.5",
		"stout_snapshot_duration_seconds_sum 0.013", "stout_snapshot_failures_total 17", "stout_snapshot_last_success_timestamp_seconds 1.7776332005e+09",
		"stout_lock_hold_duration_seconds_sum 120", `stout_session_keepalive_margin_ratio_bucket{le="0.01"} 0`, "stout_session_keepalive_margin_ratio_sum 0.75",
		`stout_write_stage_duration_seconds_sum{stage="queue"} 0.001`, `stout_write_stage_duration_seconds_sum{stage="disk"} 0.002`,
		`stout_write_stage_duration_seconds_sum{stage="followers"} 0.003`, `stout_write_stage_duration_seconds_sum{stage="apply"} 0.004`,
		`stout_write_stage_duration_seconds_sum{stage="reply"} 0.005`,
		`stout_read_duration_seconds_sum{kind="linear"} 0.006`, `stout_read_duration_seconds_sum{kind="stale"} 0.007`,
		`stout_failover_step_duration_seconds_sum{step="barrier"} 0.008`, `stout_failover_step_duration_seconds_sum{step="wait"} 0.009`,
		`stout_failover_step_duration_seconds_sum{step="open"} 0.01`, `stout_failover_step_duration_seconds_sum{step="detect"} 0.011`,
		`stout_failover_step_duration_seconds_sum{step="elect"} 0.012`,
		`stout_member_up{replica="r1"} 1`, `stout_member_up{replica="r2"} 0`,
		`stout_http_forwarded_in_flight{side="sent"} 0`, `stout_http_forwarded_in_flight{side="served"} 0`,
		`stout_http_forwarded_total{result="answered"} 0`, `stout_http_forwarded_total{result="refused"} 0`, `stout_http_forwarded_total{result="failed"} 0`,
	)
	n.setUnfit(errors.New("the disk is slow"))
	wantSeries(t, n, "stout_ready 0", "stout_has_master 1")
}

// Who follows knows a master, and how far the others are.
func TestVitalsOfAFollower(t *testing.T) {
	m, n := startPair(t, nil)
	n.setReplicas(lockapi.Replica{ID: "r1", URL: m.url}, lockapi.Replica{ID: "r2", URL: n.url})
	eventually(t, "the master was asked", func() bool {
		return strings.Contains(call(t, "GET", n.url+"/metrics", "").body, `stout_member_up{replica="r1"} 1`)
	})
	wantSeries(t, n, "stout_has_master 1", "stout_is_master 0", "stout_lease_held 0", "stout_lease_remaining_seconds 0", `stout_member_up{replica="r2"} 1`)
	n.setMaster(4, "", "")
	wantSeries(t, n, "stout_has_master 0", "stout_epoch 4")
}

// What callers take up is shown, and what was cut off for it.
func TestLoad(t *testing.T) {
	n := full(t)
	call(t, "GET", n.url+"/livez", "").wantStatus(t, http.StatusOK)
	wantSeries(t, n, "stout_http_connections 3", "stout_http_max_connections 3", "stout_http_connections_spared_total 2",
		"stout_http_connections_dropped_total 0", "stout_http_connections_evicted_total 0")

	m := startMaster(t, func(o *server.Options) { o.MaxConnections = 2 })
	c := transmit(t, m, "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"+strings.Repeat(" ", 4500))
	eventually(t, "half a body is there", func() bool { return gauge(t, m, "stout_http_half_sent_bytes") > 4500 })
	_, _ = fmt.Fprintf(c, "{}%498s", "")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	readReply(t, resp).wantStatus(t, http.StatusCreated)
	wantSeries(t, m, "stout_http_half_sent_bytes 0", "stout_http_half_sent_cut_total 0", "stout_http_unread_bytes 0", "stout_http_unread_cut_total 0")
	dial(t, m)
	dial(t, m)
	eventually(t, "one has made way", func() bool { return gauge(t, m, "stout_http_connections_evicted_total") > 0 })
}
