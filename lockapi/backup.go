package lockapi

import "time"

// RouteBackup is the route of a backup of the whole cell.
const RouteBackup = "/v1/backup"

// TypeBackup is the media type of a backup.
const TypeBackup = "application/vnd.stout.backup"

// BackupFormat is the format of backups that this release writes and reads.
const BackupFormat = 1

// BackupHeader says what a backup is of. It is JSON, at the beginning of the file.
type BackupHeader struct {
	Format  int       `json:"format"`
	Cell    string    `json:"cell"`    // the cell's name
	CellID  string    `json:"cell_id"` // and its id
	Time    time.Time `json:"time"`    // when it was begun, by the replica's wall clock
	Release string    `json:"release"` // that wrote it
	Replica string    `json:"replica"` // the id of the replica that did
	// Stale says that the replica was not the master: it has all changes up to
	// Revision, and there may have been later ones by then.
	Stale    bool   `json:"stale"`
	Index    uint64 `json:"index"`    // of the last entry of the log that it has
	Revision uint64 `json:"revision"` // of the last change that it has
	Token    uint64 `json:"token"`    // the highest fencing token that was given by then

	Contents BackupContents `json:"contents"`
}

// BackupContents counts what is in a backup.
type BackupContents struct {
	Sessions     int   `json:"sessions"`
	Holds        int   `json:"holds"`
	Waiters      int   `json:"waiters"`
	Locks        int   `json:"locks"` // that are not free
	Files        int   `json:"files"`
	ContentBytes int64 `json:"content_bytes"`
	Rules        int   `json:"rules"`
	Groups       int   `json:"groups"`
	Tokens       int   `json:"tokens"` // of access
	Access       bool  `json:"access"` // whether it is on
}
