package master

import (
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// judgeAgain has all that waits be judged anew, since rights have changed: calls
// look by themselves when they are woken, and places in queues are given up by the
// log. Grants stay until they are released. o.mu is held.
func (o *office) judgeAgain() {
	s := o.log.State()
	if !s.AccessOn {
		return
	}
	for _, c := range o.waiters.claims {
		for _, w := range c.calls {
			w.wakeup.wake()
		}
	}
	for _, v := range o.sessions.byID {
		v.wake()
	}
	o.judgeWaits(s)
}

// judgeWaits has the places in queues judged by a state. An office does it when it
// opens, too: an earlier one may have ended before it was through.
func (o *office) judgeWaits(s *state.State) {
	if s.AccessOn && s.WaitCount() > 0 {
		go o.expelAll(s)
	}
}

// expelledAtOnce is how many waits are ended at the same time.
const expelledAtOnce = 256

// expelAll ends the waits of sessions whose principals may not lock there, by a
// state. A wait that comes later was judged by a later one.
func (o *office) expelAll(s *state.State) {
	var under []func() (state.Result, error)
	settle := func() (err error) {
		for _, wait := range under {
			if _, e := wait(); e != nil {
				err = e
			}
		}
		under = under[:0]
		return err
	}
	defer func() { _ = settle() }()
	for w := range s.Waits() {
		if mayWait(s, w) {
			continue
		}
		under = append(under, o.begin(Caller{}, &state.Expel{Session: w.Session, Path: w.Path, Handle: w.Handle, Seq: w.Seq}))
		if len(under) == expelledAtOnce && settle() != nil {
			return // mastership is lost: the next office judges all
		}
	}
}

// mayWait reports whether a place in a queue is one that its session's principal may
// have.
func mayWait(s *state.State, w *state.Wait) bool {
	v, lives := s.Session(w.Session)
	if !s.AccessOn || !lives {
		return true
	}
	who := Caller{Principal: v.Principal}
	return s.Policy().May(who.who(), access.Lock, w.Path).Allowed
}
