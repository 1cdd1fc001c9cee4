package config

import (
	"time"

	"github.com/stoutlock/stout/lease"
)

const nameStaleFor = "stale-for"

func staleForSetting() setting {
	return duration(nameStaleFor, "while access is on, how long to answer stale reads and events without word of a master", func(c *Config) *time.Duration { return &c.StaleFor })
}

const (
	defaultStaleFor = time.Minute
	mostStaleFor    = 24 * time.Hour
)

func (v *validator) staleFor() {
	c := v.config
	switch {
	case c.StaleFor < min(c.MasterLease, lease.MaxTerm):
		v.refuse(nameStaleFor, c.StaleFor.String(), "shorter than master-lease (%s, %s): a replica beside a master that is well would refuse", c.MasterLease, c.Source(nameLease))
	case c.StaleFor > mostStaleFor:
		v.refuse(nameStaleFor, c.StaleFor.String(), "at most %s: a replica that is cut off takes a revoked token for so long", mostStaleFor)
	}
}
