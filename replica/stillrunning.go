package replica

import (
	"context"
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/link"
)

// StillRuns says which member of the same cell answers, nil where none does: at the
// addresses that the state has, and at the given ones. Two cells that go on from one
// log give the same locks. One that does not answer may run all the same. This
// replica's own name is asked as well: as its directory is open here, who answers
// has another one that took its place, or a copy.
func (r *Stopped) StillRuns(ctx context.Context, given []cell.Member, s link.Security) error {
	who := r.dir.Identity()
	at := map[string][]string{}
	add := func(name, addr string) {
		if addr != "" && !slices.Contains(at[name], addr) {
			at[name] = append(at[name], addr)
		}
	}
	for _, m := range r.state.Members {
		add(m.ID, m.RaftAddr)
	}
	for _, m := range given {
		add(m.ID, m.RaftAddr)
	}
	names := make([]string, 0, len(at))
	for name := range at {
		names = append(names, name)
	}
	answers := admission.AskAll(ctx, "", names, func(ctx context.Context, name string) (card admission.Card, err error) {
		return reach(ctx, at[name], func(ctx context.Context, addr string) (card admission.Card, err error) {
			raw, err := link.AskCard(ctx, addr, link.Opening{Cell: who.Cell, CellID: who.CellID, From: who.ServerID(), To: name}, s)
			if err == nil {
				err = cbor.Unmarshal(raw, &card)
			}
			return card, err
		}, nil)
	})
	slices.Sort(names)
	for _, name := range names {
		a := answers[name]
		if a.Err != nil || a.Card.CellID != who.CellID {
			continue
		}
		if name == who.ID {
			return fmt.Errorf("replica %s of this cell runs, at %s, with directory %s, in the place of this one, %s: recover from that one, or stop it, for good, for two cells that go on from one log give the same locks", name, a.Card.RaftAddr, a.Card.Directory, who.Directory)
		}
		return fmt.Errorf("replica %s of this cell runs, at %s: stop it, for good, for two cells that go on from one log give the same locks; where a majority still runs, nothing is lost, and this replica is only to be started again", name, a.Card.RaftAddr)
	}
	return nil
}
