package lockapi

import "time"

// RouteBackup is the route of a backup of the whole cell.
const RouteBackup = "/v1/backup"

// TypeBackup is the media type of a backup.
const TypeBackup = "application/vnd.stout.backup"

// BackupFormat is the format of backups that this release writes and reads.
const BackupFormat = 1

// BackupHeader describes a backup. It is the JSON at the beginning of the file.
type BackupHeader struct {
	Format  int       `json:"format"`
	Cell    string    `json:"cell"`    // name of the cell
	CellID  string    `json:"cell_id"` // id of the cell
	Time    time.Time `json:"time"`    // start of the backup, by the replica's wall clock
	Release string    `json:"release"` // release that wrote the backup
	Replica string    `json:"replica"` // id of the replica that wrote the backup
	// Stale reports that the replica was not the master. The backup has all
	// changes up to Revision; the cell may already have had later ones.
	Stale    bool   `json:"stale"`
	Index    uint64 `json:"index"`    // last log entry in the backup
	Revision uint64 `json:"revision"` // last change in the backup
	Token    uint64 `json:"token"`    // highest fencing token granted by then

	Contents BackupContents `json:"contents"`
}

// BackupContents counts the items in a backup.
type BackupContents struct {
	Sessions     int   `json:"sessions"`
	Holds        int   `json:"holds"`
	Waiters      int   `json:"waiters"`
	Locks        int   `json:"locks"` // locks that are not free
	Files        int   `json:"files"`
	ContentBytes int64 `json:"content_bytes"`
	Rules        int   `json:"rules"`
	Groups       int   `json:"groups"`
	Tokens       int   `json:"tokens"` // access tokens
	Access       bool  `json:"access"` // whether access control is on
}
