package doctor

// Metrics that the checks evaluate.
const (
	metricSync       = "stout_disk_sync_duration_seconds"
	metricElections  = "stout_raft_elections_total"
	metricMargin     = "stout_lease_renewal_margin_seconds"
	metricTerm       = "stout_lease_term_seconds"
	metricMaster     = "stout_is_master"
	metricDeadlocks  = "stout_deadlocks"
	metricQuotaMax   = "stout_quota_max"
	metricQuotaUsed  = "stout_quota_used"
	metricConns      = "stout_http_connections"
	metricMaxConns   = "stout_http_max_connections"
	metricCertEnds   = "stout_certificate_expiry_timestamp_seconds"
	metricCertLoads  = "stout_certificate_reloads_total"
	metricBackupAt   = "stout_backup_last_timestamp_seconds"
	metricBackupFail = "stout_backups_failed_total"
	metricAuditFails = "stout_audit_failing"
	metricAuditLines = "stout_audit_lines_total"
	metricUnsnapped  = "stout_snapshot_failures_total"
	metricSnapped    = "stout_snapshot_last_success_timestamp_seconds"
	metricFree       = "stout_disk_free_bytes"
	metricSumIndex   = "stout_state_checksum_index"
	metricSum        = "stout_state_checksum"
	metricClock      = "stout_member_clock_rate_difference_ratio" // as replicas see each other
	metricClockError = "stout_member_clock_rate_error_ratio"
	metricClockMost  = "stout_clock_rate_difference_max_ratio"
	metricOpenFiles  = "process_open_fds"
	metricMaxFiles   = "process_max_fds"
)
