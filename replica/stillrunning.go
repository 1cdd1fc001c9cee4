package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/peerconn"
)

// StillRuns says which member of the same cell runs, or may run, nil where none does:
// at the addresses that the state has, and at the given ones. Two cells that go on
// from one log give the same locks. A member that refuses, hangs, or shows a
// certificate that has ended runs as well as one that answers: whatever takes a
// connection at its address is taken for it. Only for those named in gone it is not,
// unless it answers as a member; they are stopped, and another program has the port.
// Where nothing takes a connection a member may run all the same.
//
// This replica's own name is asked as well: as its directory is open here, who answers
// has another one that took its place, or a copy.
func (r *Stopped) StillRuns(ctx context.Context, given []membership.Member, gone []string, s peerconn.Security) error {
	who := r.dir.Identity()
	type place struct{ name, addr string }
	places, names := map[string]place{}, []string{}
	add := func(name, addr string) {
		if names = append(names, name); addr != "" {
			places[name+" "+addr] = place{name, addr}
		}
	}
	for _, m := range r.state.Members {
		add(m.ID, m.RaftAddr)
	}
	for _, m := range given {
		add(m.ID, m.RaftAddr)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range gone {
		if !slices.Contains(names, name) {
			return fmt.Errorf("replica %q is said to be gone, and is none of the cell's: these are %s", name, strings.Join(names, ", "))
		}
	}
	keys, caller := slices.Sorted(maps.Keys(places)), &peerconn.Caller{Security: s}
	answers := admission.AskAll(ctx, "", keys, func(ctx context.Context, key string) (card admission.Card, err error) {
		at := places[key]
		raw, err := caller.AskCard(ctx, at.addr, peerconn.Hello{Cell: who.Cell, CellID: who.CellID, From: who.ServerID(), To: at.name})
		if err == nil {
			err = cbor.Unmarshal(raw, &card)
		}
		return card, err
	})
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("whether other replicas run is not known: %w", context.Cause(ctx))
	}
	for _, key := range keys {
		a, name := answers[key], places[key].name
		if a.Err != nil || a.Card.CellID != who.CellID {
			continue
		}
		if name == who.ID {
			return fmt.Errorf("replica %s of this cell runs, at %s, with directory %s, in the place of this one, %s: recover from that one, or stop it, for good, for two cells that go on from one log give the same locks", name, a.Card.RaftAddr, a.Card.Directory, who.Directory)
		}
		return fmt.Errorf("replica %s of this cell runs, at %s: stop it, for good, for two cells that go on from one log give the same locks; where a majority still runs, nothing is lost, and this replica is only to be started again", name, a.Card.RaftAddr)
	}
	for _, key := range keys {
		if at, err := places[key], answers[key].Err; peerconn.Connected(err) && !slices.Contains(gone, at.name) {
			return fmt.Errorf("replica %s of this cell may run: its address %s takes connections (%w). Stop it, for good, for two cells that go on from one log give the same locks; if it is stopped, and another program listens there, say so by --gone %s", at.name, at.addr, err, at.name)
		}
	}
	return nil
}
