package config

import (
	"fmt"
	"slices"
	"strings"
)

const nameJoin = "join"

// joinSource marks the entry of a replica that was made from where it listens.
const joinSource Source = "default, with join"

func joinList() setting {
	s := several(nameJoin, "url[,url]",
		"become a member of a cell that runs, instead of founding one: base URLs of its replicas",
		func(c *Config) *[]string { return &c.Join },
		func(raw string) (string, error) {
			if err := checkURL(raw); err != nil {
				return "", fmt.Errorf("%q: %w", raw, err)
			}
			return strings.TrimSuffix(raw, "/"), nil
		}, same)
	each := s.set
	s.set = func(c *Config, values []string) error {
		var all []string
		for _, v := range values {
			all = append(all, strings.Split(v, ",")...)
		}
		return each(c, all)
	}
	return s
}

// deriveJoin makes the entry of a replica that joins, where it has none: others
// reach it where it listens.
func (c *Config) deriveJoin() {
	if len(c.Join) == 0 || c.given(nameReplica) || c.ID == "" {
		return
	}
	c.Replicas = []Replica{{ID: c.ID, RaftAddr: c.RaftListen, APIURL: c.scheme() + "://" + c.APIListen}}
	c.sources[nameReplica] = joinSource
}

// derivedEntry reports whether this replica's entry was made from where it
// listens.
func (c *Config) derivedEntry() bool {
	return len(c.Join) > 0 && c.Source(nameReplica) == joinSource
}

// join checks what goes with joining a cell.
func (v *validator) join() {
	c := v.config
	if len(c.Join) == 0 {
		return
	}
	joined := strings.Join(c.Join, ",")
	switch {
	case c.Dev:
		v.refuse(nameJoin, joined, "contradicts dev, which is a cell of its own")
	case len(c.Replicas) > 1 || len(c.Replicas) == 1 && c.Replicas[0].ID != c.ID:
		v.refuse(nameJoin, joined, "who joins a cell gives no list of replicas (%s), or no other entry than its own", c.Source(nameReplica))
	case !slices.ContainsFunc(c.Join, func(at string) bool { return at != strings.TrimSuffix(c.Self().APIURL, "/") }):
		v.refuse(nameJoin, joined, "it is this replica's own URL; give those of the members of the cell that it is to join")
	case c.FoundTokenFile != "":
		v.refuse(nameJoin, joined, "contradicts found-token-file, with which a cell is founded: who joins founds none")
	}
}
