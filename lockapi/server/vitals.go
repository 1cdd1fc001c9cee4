package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/internal/histogram"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/master"
)

// vitals shows the figures of the cell and of its log, as this replica knows
// them. Before Attach it knows no master and is not ready.
type vitals struct{ *Server }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Of each of them there is one, but for those that are labelled with a member.
var (
	readyDesc        = describe("stout_ready", "1 where this replica is the master with its lease, or has heard of one lately.")
	hasMasterDesc    = describe("stout_has_master", "1 where this replica knows a master.")
	isMasterDesc     = describe("stout_is_master", "1 where this replica is the master in office.")
	epochDesc        = describe("stout_epoch", "The latest term of office that this replica knows of.")
	officesDesc      = describe("stout_offices_total", "How often this replica took office since it was started.")
	resignedDesc     = describe("stout_offices_resigned_total", "How often this replica gave up its office by itself since it was started, by reason: the step that hung, slow_disk, lease or snapshot.", "reason")
	leaseHeldDesc    = describe("stout_lease_held", "1 where this replica is the master and its lease runs.")
	leaseLeftDesc    = describe("stout_lease_remaining_seconds", "What is left of this replica's lease as master; 0 without one.")
	leaseTermDesc    = describe("stout_lease_term_seconds", "The term of the lease that this replica takes as master.")
	marginDesc       = describe("stout_lease_renewal_margin_seconds", "What was left of the lease when it was renewed; 0 where it had lapsed.")
	committedDesc    = describe("stout_commit_duration_seconds", "Time from the proposal of an entry by this replica as master to its being applied.")
	sessionsDesc     = describe("stout_sessions", "Open sessions in this replica's state.")
	locksDesc        = describe("stout_locks", "Locks in this replica's state that are held, waited for or delayed.")
	waitersDesc      = describe("stout_waiters", "Places in queues in this replica's state.")
	deadlocksDesc    = describe("stout_deadlocks", "Circles of sessions in this replica's state that wait for each other; 100 are many.")
	filesDesc        = describe("stout_files", "Files in this replica's state.")
	contentDesc      = describe("stout_content_bytes", "Bytes of content of the files in this replica's state.")
	expiredDesc      = describe("stout_sessions_expired_total", "Sessions that expired while this replica was the master.")
	waitedDesc       = describe("stout_lock_wait_duration_seconds", "Time in a lock's queue, of those who got the lock from this replica as master.")
	heldDesc         = describe("stout_lock_hold_duration_seconds", "Time from a lock's grant to its end, of those that ended while this replica was the master; by the wall clock.")
	keptDesc         = describe("stout_session_keepalive_margin_ratio", "What was left of a session's lease when a keepalive of it came to this replica as master, in parts of its ttl.")
	stageDesc        = describe("stout_write_stage_duration_seconds", "Time of the stages of writes through this replica as master: queue, disk, followers, apply, reply.", "stage")
	readDesc         = describe("stout_read_duration_seconds", "Time to read the state for a call: linear as the master with its lease, stale as any replica.", "kind")
	failoverDesc     = describe("stout_failover_step_duration_seconds", "Time of the steps by which this replica came into office: detect, elect, barrier, wait, open.", "step")
	memberUpDesc     = describe("stout_member_up", "1 where the member has answered this replica lately.", "replica")
	memberAtDesc     = describe("stout_member_applied_index", "Index of the last entry that the member has applied, as this replica knows it.", "replica")
	refusesDesc      = describe("stout_member_refuses", "1 where the member knows of acknowledged changes that this replica, its master, lacks.", "replica")
	toleratedDesc    = describe("stout_failures_tolerated", "How many more of the members that vote and have answered this replica lately may fail, with a majority left.")
	tolerableDesc    = describe("stout_failures_tolerated_max", "How many may fail where all of them are up.")
	clockDesc        = describe("stout_member_clock_rate_difference_ratio", "How much faster the member's clock runs than this replica's, as a fraction: the worst of the last two minutes.", "replica")
	clockErrorDesc   = describe("stout_member_clock_rate_error_ratio", "How far that difference may be off, by the time that messages took.", "replica")
	clockAllowedDesc = describe("stout_clock_rate_difference_max_ratio", "How much the rates of two replicas' clocks may differ: what clock-drift allows to both.")
	raftTermDesc     = describe("stout_raft_term", "The term of Raft that this replica is in.")
	raftLastDesc     = describe("stout_raft_last_index", "Index of the last entry of this replica's log.")
	raftCommitDesc   = describe("stout_raft_commit_index", "Index up to which this replica knows that entries are committed.")
	raftAtDesc       = describe("stout_raft_applied_index", "Index of the last entry that this replica has applied.")
	raftHeardDesc    = describe("stout_raft_last_contact_seconds", "Time since this replica heard of a leader, or since it was started; 0 on the leader.")
	electionsDesc    = describe("stout_raft_elections_total", "How often this replica has begun to campaign since it was started.")
	leadersDesc      = describe("stout_raft_leader_changes_total", "How often this replica has learned of a leader since it was started.")
	syncDesc         = describe("stout_disk_sync_duration_seconds", "Time to write entries to this replica's log and sync them.")
	snapshotDesc     = describe("stout_snapshot_duration_seconds", "Time to write a snapshot, this replica's own or one that the master sent.")
	unsnappedDesc    = describe("stout_snapshot_failures_total", "Attempts to write, read or send a snapshot, or to receive one whole, that failed since this replica was started.")
	snappedDesc      = describe("stout_snapshot_last_success_timestamp_seconds", "When this replica last finished a snapshot since it was started, by Unix time; 0 before.")
	quotaMaxDesc     = describe("stout_quota_max", "The quota of this replica, which counts while it is master; 0 is none.", "quota")
	quotaUsedDesc    = describe("stout_quota_used", "What there is of what the quota bounds, on the master, for quotas of the whole cell.", "quota")
	quotaRefusedDesc = describe("stout_quota_refused_total", "Calls that this replica refused as master because the quota was used up.", "quota")
	applyingDesc     = describe("stout_raft_apply_duration_seconds", "Time to apply an entry to this replica's state.")
)

func (vitals) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		readyDesc, hasMasterDesc, isMasterDesc, epochDesc, officesDesc, resignedDesc, leaseHeldDesc, leaseLeftDesc, leaseTermDesc, marginDesc, committedDesc,
		sessionsDesc, locksDesc, waitersDesc, deadlocksDesc, filesDesc, contentDesc, expiredDesc, waitedDesc,
		heldDesc, keptDesc, stageDesc, readDesc, failoverDesc,
		clockDesc, clockErrorDesc, clockAllowedDesc, memberUpDesc, memberAtDesc, refusesDesc, toleratedDesc, tolerableDesc, raftTermDesc, raftLastDesc, raftCommitDesc,
		raftAtDesc, raftHeardDesc, electionsDesc, leadersDesc, syncDesc, applyingDesc,
		snapshotDesc, unsnappedDesc, snappedDesc, quotaMaxDesc, quotaUsedDesc, quotaRefusedDesc,
	} {
		to <- d
	}
}

func (c vitals) Collect(to chan<- prometheus.Metric) {
	at := c.attached.Load()
	if at == nil {
		return // /metrics is a member's
	}
	v := at.Vitals()
	view := at.View()
	gauge(to, readyDesc, oneIf(view.Ready == nil))
	gauge(to, hasMasterDesc, oneIf(v.ID != ""))
	gauge(to, isMasterDesc, oneIf(v.Self))
	gauge(to, epochDesc, float64(v.Epoch))
	count(to, officesDesc, v.Offices)
	for reason, n := range v.Resigned {
		count(to, resignedDesc, n, reason)
	}
	gauge(to, leaseHeldDesc, oneIf(v.Lease.Held))
	gauge(to, leaseLeftDesc, v.Lease.Remaining.Seconds())
	gauge(to, leaseTermDesc, v.LeaseTerm.Seconds())
	spread(to, marginDesc, v.Margin)
	spread(to, committedDesc, v.Committed)
	gauge(to, sessionsDesc, float64(v.Sessions))
	gauge(to, locksDesc, float64(v.Locks))
	gauge(to, waitersDesc, float64(v.Waiters))
	gauge(to, deadlocksDesc, float64(v.Deadlocks))
	gauge(to, filesDesc, float64(v.Files))
	gauge(to, contentDesc, float64(v.Content))
	count(to, expiredDesc, v.Expired)
	spread(to, waitedDesc, v.Waited)
	r := v.Replica
	collectDurations(to, &v)
	c.collectMembers(to, &view)
	gauge(to, clockAllowedDesc, c.opts.Drift.Between())
	gauge(to, raftTermDesc, float64(r.Term))
	gauge(to, raftLastDesc, float64(r.Last))
	gauge(to, raftCommitDesc, float64(r.Committed))
	gauge(to, raftAtDesc, float64(r.Applied))
	gauge(to, raftHeardDesc, time.Duration(view.Own.LastContactMS*int64(time.Millisecond)).Seconds())
	count(to, electionsDesc, r.Elections)
	count(to, leadersDesc, r.Leaders)
	spread(to, syncDesc, r.Stored)
	spread(to, applyingDesc, r.Applying)
	spread(to, snapshotDesc, r.Snapshots.Took)
	count(to, unsnappedDesc, r.Snapshots.Failures)
	gauge(to, snappedDesc, unixSeconds(r.Snapshots.Last))
	for _, u := range v.Quotas {
		gauge(to, quotaMaxDesc, float64(u.Max), u.Name)
		count(to, quotaRefusedDesc, uint64(u.Refused), u.Name)
		if u.Known {
			gauge(to, quotaUsedDesc, float64(u.Used), u.Name)
		}
	}
}

// collectDurations shows where the time goes: of writes, of reads, and of a
// fail-over.
func collectDurations(to chan<- prometheus.Metric, v *master.Vitals) {
	spread(to, heldDesc, v.Held)
	spread(to, keptDesc, v.Kept)
	r := &v.Replica
	for stage, took := range map[string]histogram.Snapshot{
		"queue": v.Queued, "disk": r.Disk, "followers": r.Followers, "apply": r.OwnApplied, "reply": v.Replied,
	} {
		spread(to, stageDesc, took, stage)
	}
	for kind, took := range map[string]histogram.Snapshot{"linear": v.Linear, "stale": v.Stale} {
		spread(to, readDesc, took, kind)
	}
	for step, took := range map[string]histogram.Snapshot{
		"detect": r.Detected, "elect": r.Elected, "barrier": v.Barrier, "wait": v.Outwaited, "open": v.Opening,
	} {
		spread(to, failoverDesc, took, step)
	}
}

// upFor is for how long a member counts as up that has answered.
const upFor = 3 * peers.Every

func (c vitals) collectMembers(to chan<- prometheus.Metric, view *master.View) {
	own := &view.Own
	voters, well := 0, 0
	for _, r := range view.Cell.Replicas {
		last, applied, heard := c.others.Heard(r.ID)
		up := heard && time.Since(last) < upFor
		if r.ID == own.ID {
			up, applied = true, own.AppliedIndex
		}
		if r.Role != lockapi.RoleNonvoter {
			voters++
			if up {
				well++
			}
		}
		gauge(to, memberUpDesc, oneIf(up), r.ID)
		gauge(to, memberAtDesc, float64(applied), r.ID)
		gauge(to, refusesDesc, oneIf(r.Fault != ""), r.ID)
		c.collectClock(to, r.ID, r.ID == own.ID)
	}
	majority := voters/2 + 1
	gauge(to, toleratedDesc, float64(max(0, well-majority)))
	gauge(to, tolerableDesc, float64(max(0, voters-majority)))
}

// collectClock shows how fast a member's clock runs, once that is known.
func (c vitals) collectClock(to chan<- prometheus.Metric, id string, own bool) {
	difference, err, known := c.others.ClockRate(id)
	if own && c.opts.Clock != nil {
		difference, err, known = 0, 0, true
	}
	if known {
		gauge(to, clockDesc, difference, id)
		gauge(to, clockErrorDesc, err, id)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// unixSeconds is an instant by Unix time; 0 for the zero one.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func count(to chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func spread(to chan<- prometheus.Metric, d *prometheus.Desc, s histogram.Snapshot, labels ...string) {
	buckets := make(map[float64]uint64, len(s.UpTo))
	for bound, n := range s.UpTo {
		buckets[bound.Seconds()] = n
	}
	to <- prometheus.MustNewConstHistogram(d, s.Count, s.Sum.Seconds(), buckets, labels...)
}
