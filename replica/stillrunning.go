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

// StillRuns returns an error if a member of the same cell runs, or may run, and
// nil if none does. It tries the addresses in the state and the given ones. Two
// cells that continue from one log grant the same locks.
//
// Any address that accepts a connection counts as a running member. That
// includes a member that refuses, hangs, or shows an expired certificate. The
// names in gone are an exception: they are stopped and another program has the
// port, so they count only if they answer as a member. If no address accepts a
// connection, a member may still run.
//
// This replica's own name is tried as well. Its directory is open here, so an
// answer comes from a directory that took its place, or from a copy.
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
			return fmt.Errorf("replica %q was given as gone but is not in this cell; its replicas are %s", name, strings.Join(names, ", "))
		}
	}
	keys, caller := slices.Sorted(maps.Keys(places)), &peerconn.Caller{Security: s}
	answers := admission.AskAll(ctx, "", keys, func(ctx context.Context, key string) (card admission.Info, err error) {
		at := places[key]
		raw, err := caller.AskInfo(ctx, at.addr, peerconn.Hello{Cell: who.Cell, CellID: who.CellID, From: who.ServerID(), To: at.name})
		if err == nil {
			err = cbor.Unmarshal(raw, &card)
		}
		return card, err
	})
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("could not find out whether other replicas run: %w", context.Cause(ctx))
	}
	for _, key := range keys {
		a, name := answers[key], places[key].name
		if a.Err != nil || a.Info.CellID != who.CellID {
			continue
		}
		if name == who.ID {
			return fmt.Errorf("replica %s of this cell runs, at %s, with directory %s, in place of this one, %s: recover from that one, or stop it permanently: two cells that continue from one log grant the same locks", name, a.Info.RaftAddr, a.Info.Directory, who.Directory)
		}
		return fmt.Errorf("replica %s of this cell runs, at %s: stop it permanently: two cells that continue from one log grant the same locks; if a majority still runs, nothing is lost: start this replica again instead", name, a.Info.RaftAddr)
	}
	for _, key := range keys {
		if at, err := places[key], answers[key].Err; peerconn.Connected(err) && !slices.Contains(gone, at.name) {
			return fmt.Errorf("replica %s of this cell may run: its address %s accepts connections (%w). Stop it permanently: two cells that continue from one log grant the same locks; if it is stopped and another program listens there, add --gone %s", at.name, at.addr, err, at.name)
		}
	}
	return nil
}
