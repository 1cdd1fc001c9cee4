package master

import (
	"context"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// newTable returns the members as this master sees and changes them.
func (m *Master) newTable() *members.Table {
	return members.New(m.members, members.Options{
		ID: m.opts.ID, Level: m.opts.Level, AutoReplace: m.opts.AutoReplace, Clock: m.opts.Clock, Logger: m.opts.Logger,
		State: m.log.State, Barrier: m.log.Barrier, Wake: m.memberWakeup.Wake,
		Master: func() string { return m.Known().ID },
		Transfer: func(ctx context.Context) error {
			if err := m.checkSuccessor(ctx, ""); err != nil {
				return err
			}
			_, err := m.transferMastership(ctx, "")
			return err
		},
		Changed: func(change membership.Change, id string) {
			m.opts.happened(m.log, memberEvents[change], id, m.log.State().Epoch)
		},
	})
}

// Put makes a change of the members; see members.Office.
func (o *office) Put(op state.Operation) (state.Result, error) {
	if r, ok := o.fromMemory(op); ok {
		return r, nil
	}
	return o.propose(&Caller{}, op)
}

// Ended reports whether the office has ended.
func (o *office) Ended() bool { return o.isOver.Load() }

// ReadyFor raises the cell's level if an operation needs a higher one, so that
// the first caller need not retry.
func (o *office) ReadyFor(op state.Operation) error {
	if o.log.State().Knows(op) || o.table == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*members.AskTimeout)
	defer cancel()
	return o.table.RaiseLevel(ctx, o)
}

// keepMembers makes rounds of package members for as long as the office lasts.
func (m *Master) keepMembers(ctx context.Context, o *office) {
	t := stoppedTimer()
	defer t.Stop()
	var contact members.Contact
	for {
		t.Reset(m.table.Round(ctx, o, &contact))
		select {
		case <-ctx.Done():
			return
		case <-m.memberWakeup:
		case <-t.C:
		}
	}
}

// CellID returns the id of the cell that this replica belongs to.
func (m *Master) CellID() string { return m.members.CellID() }

// Directory returns the id of this replica's data directory.
func (m *Master) Directory() string { return m.members.Directory() }

// ListMembers returns the members and their health, as this replica sees them.
// On the master it is linearizable.
func (m *Master) ListMembers(ctx context.Context, q *Read, _ *lockapi.ListMembers) (lockapi.Members, error) {
	if err := checkRead(ctx, m, q); err != nil {
		return lockapi.Members{}, err
	}
	ask := m.table.AskSettled
	if q.Stale {
		ask = m.table.Ask
	}
	seen, err := ask(ctx)
	if err != nil {
		return lockapi.Members{}, err
	}
	// The members were polled before the lease is checked: the answer was
	// true at that time.
	return read(ctx, m, q, func(*office, *state.State) (lockapi.Members, error) { return m.table.List(seen), nil })
}

// GetURLs returns the URLs of the replicas. On the master they are as of the
// last change of the members, elsewhere as of this replica's configuration. No
// other replica is asked.
func (m *Master) GetURLs(ctx context.Context, q *Read, _ *lockapi.GetURLs) (lockapi.URLs, error) {
	return read(ctx, m, q, func(*office, *state.State) (lockapi.URLs, error) {
		members := m.members.Members()
		out := lockapi.URLs{CellID: m.members.CellID(), Replicas: []lockapi.ReplicaURL{}, MembersRevision: revisionOf(members)}
		for _, r := range onePerName(members) {
			out.Replicas = append(out.Replicas, lockapi.ReplicaURL{ID: r.ID, URL: r.APIURL})
		}
		return out, nil
	})
}

// AddMember makes a replica a member without a vote; see members.Table.
func (m *Master) AddMember(ctx context.Context, by *Caller, req *lockapi.AddMember) (lockapi.MemberChange, error) {
	return serve(m, by, func(o *office) (lockapi.MemberChange, error) {
		return lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, m.table.Add(ctx, o, req)
	})
}

// RemoveMember removes a member with all directories of its name.
func (m *Master) RemoveMember(ctx context.Context, by *Caller, req *lockapi.RemoveMember) (lockapi.MemberRemoved, error) {
	return serve(m, by, func(o *office) (lockapi.MemberRemoved, error) {
		return lockapi.MemberRemoved{ID: req.ID, Removed: true}, m.table.Remove(ctx, o, req)
	})
}

// ReplaceMember replaces a member's directory by another one.
func (m *Master) ReplaceMember(ctx context.Context, by *Caller, req *lockapi.ReplaceMember) (lockapi.MemberChange, error) {
	return serve(m, by, func(o *office) (lockapi.MemberChange, error) {
		return lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, m.table.Replace(ctx, o, req)
	})
}

// SetMember changes a member's addresses, and whether it votes.
func (m *Master) SetMember(ctx context.Context, by *Caller, req *lockapi.SetMember) (lockapi.Member, error) {
	return serve(m, by, func(o *office) (lockapi.Member, error) { return m.table.Set(ctx, o, req) })
}
