package master

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/membership"
)

// KeepAliveAll extends several sessions of one caller. It answers when
// KeepAlive would answer for the first of them, and extends the others at the
// same time. A session that is not extended has an error in its entry and
// delays no other session. Only KeepAlive adopts a session from before access
// was enabled.
func (m *Master) KeepAliveAll(ctx context.Context, by *Caller, req *lockapi.KeepAliveAll) (lockapi.Keepalives, error) {
	return serve(m, by, func(o *office) (lockapi.Keepalives, error) {
		all := &keepalives{o: o, out: make([]lockapi.KeptSession, len(req.Sessions))}
		began, woken, access, room := o.now(), wait.NewWakeup(), m.log.State().AccessOn, lockapi.PageBytes
		for i, s := range req.Sessions {
			all.out[i].ID = s.ID
			k := &keepalive{o: o, began: began, wakeup: woken, shared: &room, ack: s.Ack, wait: time.Duration(req.WaitMS) * time.Millisecond}
			if by.Principal != "" || by.Secret != nil || access {
				each := *by
				each.Ask = Ask{Right: NoCaller, Session: s.ID}
				k.by = &each
			}
			if err := all.add(i, k, s.ID); err != nil {
				return lockapi.Keepalives{}, err
			}
		}
		defer all.leave()
		err := all.run(ctx, woken)
		return lockapi.Keepalives{Sessions: all.out, MembersRevision: m.membersRevision()}, err
	})
}

// keepalives is one call for many sessions.
type keepalives struct {
	o       *office
	waiting []waitingKeepalive
	news    bool          // an entry of out is made: the call is to be answered
	endsBy  time.Duration // how long it waits for the ends of sessions past due; 0 without news
	out     []lockapi.KeptSession
}

// endPatience is how long a call that has an answer waits for the ends of its
// sessions that are past due. When many sessions end, their ends wait for their
// turns.
const endPatience = time.Second

type waitingKeepalive struct {
	*keepalive
	s        *session
	at       int // its entry of out
	answerBy time.Duration
}

// add checks the caller's rights and finds the session.
func (a *keepalives) add(at int, k *keepalive, id string) error {
	if err := k.reauthorize(id); err != nil {
		return a.refuse(at, err)
	}
	s, err := k.join(id)
	if err != nil {
		return a.refuse(at, err)
	}
	a.waiting = append(a.waiting, waitingKeepalive{k, s, at, k.answerBy(s)})
	return nil
}

// refuse makes an error the entry of a session. An error about the office ends
// the whole call: refuse returns it.
func (a *keepalives) refuse(at int, err error) error {
	refused, ok := errors.AsType[*lockapi.Error](err)
	if own, is := err.(ownRefusal); is {
		refused, ok = own.refusal, true
	}
	if !ok || refused.Code == lockapi.CodeNoMaster || refused.Code == lockapi.CodeOutcomeUnknown {
		return err
	}
	a.news, a.out[at].Error = true, refused.Problem()
	return nil
}

func (a *keepalives) leave() {
	for _, k := range a.waiting {
		k.leave(k.s)
	}
}

// run waits until one session has something to report, and extends all.
func (a *keepalives) run(ctx context.Context, woken wait.Wakeup) error {
	t := stoppedTimer()
	defer t.Stop()
	for recheck, first := false, true; ; first = false {
		again, err := a.step(recheck)
		if err != nil || len(a.waiting) == 0 {
			return err
		}
		if first { // a change of rights before the call waited did not wake it
			recheck = true
			continue
		}
		t.Reset(again)
		select {
		case <-t.C:
			recheck = false
		case <-woken:
			recheck = true
		case <-a.o.done:
			return errMoved()
		case <-ctx.Done():
			return errNoMaster("the caller has gone")
		}
	}
}

// step makes the entries that are due, and all of them once there is one. It
// returns how long the others may wait.
func (a *keepalives) step(recheck bool) (again time.Duration, err error) {
	for before := !a.news; ; before = false {
		again = time.Hour
		left := a.waiting[:0]
		for _, k := range a.waiting {
			wait, err := a.one(&k, recheck)
			if err != nil {
				return 0, err
			}
			if wait == 0 {
				k.leave(k.s)
				continue
			}
			left, again = append(left, k), min(again, wait)
		}
		a.waiting = left
		if !before || !a.news || len(left) == 0 {
			return again, nil
		}
	}
}

// one makes the entry of a session, or returns how long it may wait.
func (a *keepalives) one(k *waitingKeepalive, recheck bool) (time.Duration, error) {
	state := a.o.log.State()
	if recheck || k.by != nil && k.by.identify(state) != nil {
		if err := k.reauthorize(k.s.id); err != nil {
			return 0, a.refuse(k.at, err)
		}
	}
	if a.news {
		k.answerBy = 0
	}
	reply, again, err := k.step(k.s, k.answerBy)
	now := a.o.now()
	if a.news && a.endsBy == 0 {
		a.endsBy = now + endPatience
	}
	switch {
	case err == nil && again > 0 && a.news && now >= a.endsBy && a.o.leaseValid():
		a.out[k.at].Error = errNoMaster("session %q is past due, and its end is under way; ask again", lockapi.Clip(k.s.id)).Problem()
		return 0, nil
	case k.quiet:
		a.out[k.at].Error = rights.ErrNoSession(k.s.id).Problem()
		return 0, nil
	case err != nil:
		return 0, a.refuse(k.at, err)
	case again == 0:
		a.news, a.out[k.at].Keepalive = true, &reply
	case k.by != nil:
		again = k.by.within(state, again)
	}
	return again, nil
}

// membersRevision is a number that changes when the members or their URLs
// change, up to a second later. It is a checksum and no counter, so that every
// master has the same number. JSON represents it exactly.
type membersRevision struct {
	sum   atomic.Uint64
	until atomic.Int64 // when to recompute it, on the Master's clock
}

// membersRevision recomputes the checksum once a second, in one of its callers:
// listing the members may take long and must not delay the other callers.
func (m *Master) membersRevision() uint64 {
	r, now := &m.membersRev, m.opts.Clock()
	until, sum := r.until.Load(), r.sum.Load()
	if sum != 0 && (int64(now) < until || !r.until.CompareAndSwap(until, int64(now+time.Second))) {
		return sum
	}
	sum = revisionOf(m.members.Members())
	r.sum.Store(sum)
	return sum
}

func revisionOf(members []membership.MemberStatus) uint64 {
	h := fnv.New64a()
	for _, r := range onePerName(members) {
		_, _ = fmt.Fprintf(h, "%s\x00%s\x00", r.ID, r.APIURL)
	}
	return h.Sum64()>>11 | 1
}
