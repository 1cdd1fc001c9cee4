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

// StillRuns says which other member of the same cell answers, nil where none does:
// at the addresses that the state has, and at the given ones. Two cells that go on
// from one log give the same locks. One that does not answer may run all the same.
func (r *Stopped) StillRuns(ctx context.Context, given []cell.Member, s link.Security) error {
	who := r.dir.Identity()
	at := map[string][]string{}
	add := func(name, addr string) {
		if name != who.ID && addr != "" && !slices.Contains(at[name], addr) {
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
	answers := admission.AskAll(ctx, who.ID, names, func(ctx context.Context, name string) (card admission.Card, err error) {
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
		if a := answers[name]; a.Err == nil && a.Card.CellID == who.CellID {
			return fmt.Errorf("replica %s of this cell runs, at %s: stop it, for good, for two cells that go on from one log give the same locks; where a majority still runs, nothing is lost, and this replica is only to be started again", name, a.Card.RaftAddr)
		}
	}
	return nil
}
