package master

import (
	"context"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
)

// linear makes a linearizable read. It notes the office, reads, and then checks
// that the same office's lease still runs. If it does not, linear discards the
// answer and reads again once the lease is regained. The lease is regained by a
// log entry of this office, which is the barrier.
func linear[T any](ctx context.Context, m *Master, q *Read, read func(o *office, s *state.State) (T, error)) (T, error) {
	var none T
	o := m.inOffice()
	if o == nil {
		return none, errNotMaster()
	}
	deadline := o.now() + m.opts.Patience
	for {
		s := o.log.State()
		v, err := authorizedRead(m, o, s, q, read)
		if o.leaseValid() {
			return v, err
		}
		if o.now() > deadline {
			return none, errNoMaster("the master lease has lapsed and was not regained within %v", m.opts.Patience)
		}
		select {
		case <-time.After(lapseRecheck):
		case <-o.done:
			return none, errNoMaster("mastership was lost during the call")
		case <-ctx.Done():
			return none, errNoMaster("the caller has gone")
		}
	}
}

// read is linear or, for a stale read, reads this replica's own state with a
// nil office.
func read[T any](ctx context.Context, m *Master, q *Read, f func(o *office, s *state.State) (T, error)) (T, error) {
	began := time.Now()
	defer func() { m.vitals.read(q.Stale, time.Since(began)) }()
	return readUnmeasured(ctx, m, q, f)
}

// checkRead checks the caller's rights before work, or waiting, that precedes a
// read. The read checks them again.
func checkRead(ctx context.Context, m *Master, q *Read) error {
	_, err := readUnmeasured(ctx, m, q, func(*office, *state.State) (struct{}, error) { return struct{}{}, nil })
	return err
}

func readUnmeasured[T any](ctx context.Context, m *Master, q *Read, f func(o *office, s *state.State) (T, error)) (T, error) {
	if q.Stale {
		s, _, err := m.ownState()
		if err != nil {
			var none T
			return none, err
		}
		return authorizedRead(m, nil, s, q, f)
	}
	return linear(ctx, m, q, f)
}

// authorizedRead checks the caller's rights by a state, and reads from that
// same state.
func authorizedRead[T any](m *Master, o *office, s *state.State, q *Read, read func(o *office, s *state.State) (T, error)) (T, error) {
	if q.Caller == nil {
		q.Caller = &Caller{}
	}
	if err := m.opts.authorize(s, q.Caller); err != nil {
		var none T
		return none, err
	}
	q.of(s)
	return read(o, s)
}

// GetSession reads one session with what it holds and waits for.
func (m *Master) GetSession(ctx context.Context, q *Read, c *lockapi.GetSession) (lockapi.SessionState, error) {
	return read(ctx, m, q, func(o *office, s *state.State) (lockapi.SessionState, error) {
		v, ok := s.Session(c.Session)
		if !ok {
			return lockapi.SessionState{}, rights.ErrNoSession(c.Session)
		}
		return sessionStateOf(o, s, v, q.Caller), nil
	})
}

// ListSessions reads a page of sessions in the order of their ids.
func (m *Master) ListSessions(ctx context.Context, q *Read, c *lockapi.ListSessions) (lockapi.SessionList, error) {
	return read(ctx, m, q, func(o *office, s *state.State) (page lockapi.SessionList, err error) {
		page.Sessions, page.Next = pageOf(s.Sessions(c.After), c.Limit, func(v *state.Session) (lockapi.SessionState, string, int) {
			one := sessionStateOf(o, s, v, q.Caller)
			return one, v.ID, sessionSize(&one)
		})
		return page, nil
	})
}

// GetLock reads one lock, with the first positions in its queue. Holders are
// shown up to lockapi.MaxHolders, and metadata of sessions up to
// lockapi.MaxReplyMeta.
func (m *Master) GetLock(ctx context.Context, q *Read, c *lockapi.GetLock) (lockapi.Lock, error) {
	return read(ctx, m, q, func(o *office, s *state.State) (lockapi.Lock, error) {
		room := metaBudget(lockapi.MaxReplyMeta)
		out := lockOf(o, s, c.Path, lockapi.MaxHolders, &room)
		if c.Waiters > 0 {
			out.Queue = queueOf(s, c.Path, c.Waiters, time.Now(), &room)
		}
		return out, nil
	})
}

// ListLocks reads a page of the locks that are not free, in bytewise order of
// their paths.
func (m *Master) ListLocks(ctx context.Context, q *Read, c *lockapi.ListLocks) (lockapi.LockList, error) {
	return read(ctx, m, q, func(o *office, s *state.State) (page lockapi.LockList, err error) {
		room := metaBudget(lockapi.MaxReplyMeta)
		sees := func(l *state.Node) bool { return q.Caller.who().MayRead(s, l.Path) }
		page.Locks, page.Next = pageOf(only(s.Locks(c.Prefix, c.After), sees), c.Limit, func(l *state.Node) (lockapi.Lock, string, int) {
			one := lockOf(o, s, l.Path, lockapi.MaxHolders, &room)
			return one, l.Path, lockSize(&one)
		})
		return page, nil
	})
}

// CheckSequencer reports whether the grant that a sequencer describes is held.
func (m *Master) CheckSequencer(ctx context.Context, q *Read, c *lockapi.CheckSequencer) (lockapi.SequencerCheck, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (lockapi.SequencerCheck, error) {
		h, ok := s.HoldByToken(c.Path, c.Token)
		switch {
		case ok && mode(h.Mode) == c.Mode:
			return lockapi.SequencerCheck{Valid: true}, nil
		case ok:
			return lockapi.SequencerCheck{Reason: "that grant is held in mode " + string(mode(h.Mode))}, nil
		}
		return lockapi.SequencerCheck{Reason: "that grant is not held: it was released, its session ended, or it never existed"}, nil
	})
}

// sessionStateOf returns a session with its holds and waits. o is nil in a stale
// read, which knows neither the rest of the session's lease nor which of its
// grants may be withdrawn. If the session is another principal's, those at paths that
// the caller may not read are left out.
func sessionStateOf(o *office, s *state.State, v *state.Session, by *Caller) lockapi.SessionState {
	own := v.Principal != "" && v.Principal == by.Principal
	out := lockapi.SessionState{Session: sessionOf(v, s.Epoch), Holds: []lockapi.Hold{}, Waits: []lockapi.Wait{}}
	var doubtful []*state.Hold
	for hold, wait := range s.HoldsAndWaits(v.ID) {
		switch {
		case own:
		case hold != nil && !by.who().MayRead(s, hold.Path), wait != nil && !by.who().MayRead(s, wait.Path):
			continue
		}
		if wait != nil {
			out.Waits = append(out.Waits, lockapi.Wait{Path: wait.Path, Handle: wait.Handle, Mode: mode(wait.Mode),
				Position: s.Position(wait)})
			continue
		}
		out.Holds = append(out.Holds, sessionHoldOf(hold))
		if hold.WaitSeq != 0 && hold.EventSeq == 0 {
			doubtful = append(doubtful, hold)
		}
	}
	if o == nil {
		return out
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if known := o.sessions.byID[v.ID]; known != nil { // else the office has not followed its opening yet
		out.LeaseRemainingMS = new(o.sessions.left(known, now).Milliseconds())
	}
	for i := range out.Holds {
		if len(doubtful) > 0 && out.Holds[i].Token == doubtful[0].Token {
			out.Holds[i].UnclaimedMS = o.waiters.unclaimedFor(doubtful[0], now).Milliseconds()
			doubtful = doubtful[1:]
		}
	}
	return out
}
