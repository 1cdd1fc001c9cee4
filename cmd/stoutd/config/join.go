package config

import (
	"slices"
	"strings"
)

// joinSource is the source of an entry of Replicas that was made from the
// addresses to bind.
const joinSource Source = "default, with join"

// deriveJoin makes the missing entry of a replica that joins: others reach it at
// the addresses to which it binds.
func (c *Config) deriveJoin() {
	if len(c.Join) == 0 || c.given(nameReplica) || c.ID == "" {
		return
	}
	c.Replicas = []Replica{{ID: c.ID, RaftAddr: c.RaftListen, APIURL: c.scheme() + "://" + c.APIListen}}
	c.sources[nameReplica] = joinSource
}

func (c *Config) derivedEntry() bool {
	return len(c.Join) > 0 && c.Source(nameReplica) == joinSource
}

func (v *validator) join() {
	c := v.config
	if len(c.Join) == 0 {
		return
	}
	switch {
	case c.Dev:
		v.refuse(&c.Join, "contradicts dev, which is a cell of its own")
	case len(c.Replicas) > 1 || len(c.Replicas) == 1 && c.Replicas[0].ID != c.ID:
		v.refuse(&c.Join, "a replica that joins a cell has no list of replicas (%s), or no other entry than its own", c.Source(nameReplica))
	case !slices.ContainsFunc(c.Join, func(at string) bool { return at != strings.TrimSuffix(c.Self().APIURL, "/") }):
		v.refuse(&c.Join, "it is this replica's own URL; give the URLs of the members of the cell")
	case c.FoundTokenFile != "":
		v.refuse(&c.Join, "contradicts %s: a replica that joins a cell founds none", c.name(&c.FoundTokenFile))
	}
}
