package config

import "strconv"

// Names of the settings for the audit log.
const (
	nameAuditLog      = "audit-log"
	nameAuditChanges  = "audit-changes"
	nameAuditRequired = "audit-required"
	nameAuditMaxSize  = "audit-max-size"
	nameAuditKeep     = "audit-keep"
)

// auditStdout is the name of standard output.
const auditStdout = "-"

func auditSettings() []setting {
	return []setting{
		text(nameAuditLog, "file", "file for a line of JSON about each denial and each change of access, members and mastership; - for standard output", func(c *Config) *string { return &c.AuditLog }),
		boolean(nameAuditChanges, "also for each change of a file, a lock or a session", func(c *Config) *bool { return &c.AuditChanges }),
		boolean(nameAuditRequired, "refuse changes while the audit log cannot be written", func(c *Config) *bool { return &c.AuditRequired }),
		size(nameAuditMaxSize, "put the audit log's file aside at this size; 0 for never", func(c *Config) *uint64 { return &c.AuditMaxSize }),
		count(nameAuditKeep, "how many of these to keep; 0 for all", func(c *Config) *uint64 { return &c.AuditKeep }),
	}
}

// Bounds of the audit log's file.
const (
	leastAudit, mostAudit = 1 << 20, 1 << 40
	mostAuditKept         = 10_000
)

func (v *validator) audit() {
	c := v.config
	if c.AuditLog == "" {
		for _, one := range []struct {
			name, value string
			set         bool
		}{
			{nameAuditChanges, "true", c.AuditChanges}, {nameAuditRequired, "true", c.AuditRequired},
			{nameAuditMaxSize, writeSize(c.AuditMaxSize), c.AuditMaxSize > 0}, {nameAuditKeep, strconv.FormatUint(c.AuditKeep, 10), c.AuditKeep > 0},
		} {
			if one.set {
				v.refuse(one.name, one.value, "it is about the audit log, and there is none: give audit-log as well")
			}
		}
		return
	}
	if n := c.AuditMaxSize; n != 0 {
		switch {
		case c.AuditLog == auditStdout:
			v.refuse(nameAuditMaxSize, writeSize(n), "standard output is no file that could be put aside; leave it out")
		case n < leastAudit || n > mostAudit || n%leastAudit != 0:
			v.refuse(nameAuditMaxSize, writeSize(n), "whole MiB within %s..%s", writeSize(leastAudit), writeSize(mostAudit))
		}
	}
	switch {
	case c.AuditKeep > mostAuditKept:
		v.refuse(nameAuditKeep, strconv.FormatUint(c.AuditKeep, 10), "at most %d files", mostAuditKept)
	case c.AuditKeep > 0 && c.AuditMaxSize == 0:
		v.refuse(nameAuditKeep, strconv.FormatUint(c.AuditKeep, 10), "files are put aside at audit-max-size only; give that as well")
	}
}
