package config

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Names of the settings for backups by schedule.
const (
	nameBackupDir   = "backup-dir"
	nameBackupEvery = "backup-every"
	nameBackupKeep  = "backup-keep"
)

func backupSettings() []setting {
	return []setting{
		text(nameBackupDir, "dir", "directory for backups of this replica's own state", func(c *Config) *string { return &c.BackupDir }),
		duration(nameBackupEvery, "how often to write one; 0 for never", func(c *Config) *time.Duration { return &c.BackupEvery }),
		count(nameBackupKeep, "how many of them to keep; 0 for all", func(c *Config) *uint64 { return &c.BackupKeep }),
	}
}

// Bounds of the schedule.
const (
	leastBackupEvery = time.Second
	mostBackupEvery  = 366 * 24 * time.Hour
	mostBackupsKept  = 100_000

	defaultBackupKeep = 24
)

func (v *validator) backups() {
	c := v.config
	switch {
	case c.BackupEvery == 0 && c.BackupDir != "":
		v.refuse(nameBackupDir, c.BackupDir, "it is for backups by schedule, and there is none: give backup-every as well")
	case c.BackupEvery == 0 && c.BackupKeep != defaultBackupKeep:
		v.refuse(nameBackupKeep, strconv.FormatUint(c.BackupKeep, 10), "it is about backups by schedule, and there is none: give backup-every and backup-dir as well")
	case c.BackupEvery == 0:
	case c.BackupEvery < leastBackupEvery:
		v.refuse(nameBackupEvery, c.BackupEvery.String(), "at least %s: each writes the whole state", leastBackupEvery)
	case c.BackupEvery > mostBackupEvery:
		v.refuse(nameBackupEvery, c.BackupEvery.String(), "at most %s: there would be none when it is needed", mostBackupEvery)
	case c.BackupDir == "":
		v.refuse(nameBackupEvery, c.BackupEvery.String(), "backups need a place: give backup-dir as well")
	}
	if c.BackupKeep > mostBackupsKept {
		v.refuse(nameBackupKeep, strconv.FormatUint(c.BackupKeep, 10), "at most %d", mostBackupsKept)
	}
	if c.BackupDir != "" && c.DataDir != "" && within(c.BackupDir, c.DataDir) {
		v.refuse(nameBackupDir, c.BackupDir, "it is in data-dir (%s), and would be lost with it", c.DataDir)
	}
}

// within reports whether a path is a directory or below it, as far as their names
// tell.
func within(path, dir string) bool {
	a, errA := filepath.Abs(path)
	b, errB := filepath.Abs(dir)
	return errA == nil && errB == nil && (a == b || strings.HasPrefix(a, strings.TrimSuffix(b, string(filepath.Separator))+string(filepath.Separator)))
}
