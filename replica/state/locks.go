package state

// Decide says what an acquire of the lock at path would come to right now for
// a pair that has no claim there: Held (it would be granted), Busy, Delayed or
// Conflict. It is the one place where compatibility is decided, for Apply and
// for a master that refuses from memory.
func (s *State) Decide(path string, mode Mode, limit int64) Result {
	l, ok := s.Lock(path)
	if !ok {
		return Result{Verdict: Held}
	}
	return l.decide(mode, limit)
}

func (l *Lock) decide(mode Mode, limit int64) Result {
	switch {
	case mode == Shared && l.shared > 0 && l.Limit != limit:
		return Result{Verdict: Conflict, Clash: ClashOther}
	case l.DelayID != 0 && l.Holders == 0:
		return Result{Verdict: Delayed}
	case l.DelayID != 0, l.Waiters > 0, !l.admits(mode, limit):
		return Result{Verdict: Busy}
	}
	return Result{Verdict: Held}
}

// admits reports whether the present holders leave room for one more.
func (l *Lock) admits(mode Mode, limit int64) bool {
	if l.Holders == 0 {
		return true
	}
	return mode == Shared && l.Mode == Shared && (limit == 0 || int64(l.Holders) < limit)
}

func (e *editor) lock(path string) Lock {
	if l, ok := e.locks.Get(path); ok {
		return *l
	}
	return Lock{Path: path}
}

// putLock stores l, or forgets the path when nothing is left there.
func (e *editor) putLock(l Lock) {
	if l.Holders == 0 && l.Waiters == 0 && l.DelayID == 0 {
		e.locks.Delete(l.Path)
		return
	}
	if l.shared == 0 {
		l.Limit = 0
	}
	if l.Holders == 0 {
		l.Mode = 0
	}
	e.locks.Put(l.Path, &l)
}

func (e *editor) acquire(c *Command) Result {
	if has, ok := e.claims.Get(claimKey{c.Session, c.Path, c.Handle}); ok {
		return e.reacquire(c, has)
	}
	if _, ok := e.sessions.Get(c.Session); !ok {
		return Result{Verdict: NoSession}
	}
	l := e.lock(c.Path)
	r := l.decide(c.Mode, c.Limit)
	switch {
	case r.Verdict == Held:
		w := &Wait{Path: l.Path, Session: c.Session, Handle: c.Handle, Mode: c.Mode, Limit: c.Limit, DelayMS: c.DelayMS}
		return Result{Verdict: Held, Hold: e.grant(&l, w)}
	case r.Verdict == Conflict, c.Wait == NoWait:
		return r
	}
	return e.enqueue(c, l)
}

// reacquire answers a pair that has a claim already: the same grant, or its
// place. Nothing changes but that a wait may become a kept one.
func (e *editor) reacquire(c *Command, has claim) Result {
	if h := has.hold; h != nil {
		if clash := clashOf(h.Mode, h.Limit, c); clash != NoClash {
			return Result{Verdict: Conflict, Clash: clash, Hold: h}
		}
		return Result{Verdict: Held, Hold: h}
	}
	w := has.wait
	if clash := clashOf(w.Mode, w.Limit, c); clash != NoClash {
		return Result{Verdict: Conflict, Clash: clash, Wait: w}
	}
	if c.Wait == Keep && !w.Keep {
		kept := *w
		kept.Keep = true
		w = &kept
		e.putWait(w)
	}
	return Result{Verdict: Queued, Wait: w}
}

func clashOf(mode Mode, limit int64, c *Command) Clash {
	switch {
	case mode != c.Mode:
		return ClashMode
	case limit != c.Limit:
		return ClashLimit
	}
	return NoClash
}

// Clash says whether an acquire in this mode and with this limit contradicts
// the hold.
func (h *Hold) Clash(mode Mode, limit int64) Clash {
	return clashOf(h.Mode, h.Limit, &Command{Mode: mode, Limit: limit})
}

// Clash says whether an acquire in this mode and with this limit contradicts
// the wait.
func (w *Wait) Clash(mode Mode, limit int64) Clash {
	return clashOf(w.Mode, w.Limit, &Command{Mode: mode, Limit: limit})
}

func (e *editor) enqueue(c *Command, l Lock) Result {
	w := &Wait{Path: l.Path, Seq: e.nextSeq(), Session: c.Session, Handle: c.Handle,
		Mode: c.Mode, Limit: c.Limit, DelayMS: c.DelayMS, Keep: c.Wait == Keep, Since: e.Now}
	e.putWait(w)
	l.Waiters++
	if w.Mode == Shared {
		l.shared++
		l.Limit = w.Limit
	}
	e.putLock(l)
	return Result{Verdict: Queued, Wait: w, Position: l.Waiters}
}

// putWait stores a wait, and the claim to it.
func (e *editor) putWait(w *Wait) {
	e.queue.Put(numbered{w.Path, w.Seq}, w)
	e.claims.Put(claimKey{w.Session, w.Path, w.Handle}, claim{wait: w})
}

// grant makes w a holder of l and gives it the next token. This is the only
// place where tokens are made.
func (e *editor) grant(l *Lock, w *Wait) *Hold {
	e.Counter++
	h := &Hold{Path: w.Path, Session: w.Session, Handle: w.Handle, Mode: w.Mode, Limit: w.Limit,
		Token: e.Incarnation<<incarnationShift + e.Counter, GrantedAt: e.Now, DelayMS: w.DelayMS, WaitSeq: w.Seq}
	if w.Keep {
		h.EventSeq = e.nextSeq()
	}
	e.holds.Put(numbered{h.Path, h.Token}, h)
	e.claims.Put(claimKey{h.Session, h.Path, h.Handle}, claim{hold: h})
	l.Holders++
	l.Mode = h.Mode
	if h.Mode == Shared {
		l.shared++
		l.Limit = h.Limit
	}
	e.putLock(*l)
	return h
}

// settle hands the lock on to those at the head of the queue, in order, as far
// as it admits them. It is called after everything that may have made room.
func (e *editor) settle(path string) {
	l := e.lock(path)
	for l.DelayID == 0 && l.Waiters > 0 {
		w := e.next(path)
		if !l.admits(w.Mode, w.Limit) {
			return
		}
		e.unqueue(&l, w)
		h := e.grant(&l, w)
		e.emit(Event{Kind: EventGranted, Hold: h, Wait: w})
	}
}

// next is the head of a queue that is not empty.
func (e *editor) next(path string) (w *Wait) {
	for w = range e.Queue(path) {
		break
	}
	return w
}

// unqueue takes w out of the queue and leaves its claim to the caller.
func (e *editor) unqueue(l *Lock, w *Wait) {
	e.queue.Delete(numbered{w.Path, w.Seq})
	l.Waiters--
	if w.Mode == Shared {
		l.shared--
	}
}

func (e *editor) dropWait(w *Wait) {
	l := e.lock(w.Path)
	e.unqueue(&l, w)
	e.claims.Delete(claimKey{w.Session, w.Path, w.Handle})
	e.putLock(l)
	e.emit(Event{Kind: EventWithdrawn, Wait: w})
}

func (e *editor) dropHold(h *Hold) {
	e.holds.Delete(numbered{h.Path, h.Token})
	e.claims.Delete(claimKey{h.Session, h.Path, h.Handle})
	l := e.lock(h.Path)
	l.Holders--
	if h.Mode == Shared {
		l.shared--
	}
	e.putLock(l)
	e.emit(Event{Kind: EventReleased, Hold: h})
}

func (e *editor) release(c *Command) Result {
	has, ok := e.claims.Get(claimKey{c.Session, c.Path, c.Handle})
	if !ok { // where there is a claim its session lives
		if _, lives := e.sessions.Get(c.Session); !lives {
			return Result{Verdict: NoSession}
		}
		return Result{Verdict: Nothing}
	}
	switch {
	case c.Token != 0 && (has.hold == nil || c.Token != has.hold.Token):
		return Result{Verdict: Nothing}
	case has.hold != nil:
		e.dropHold(has.hold)
	default:
		e.dropWait(has.wait)
	}
	e.settle(c.Path)
	return Result{Verdict: Done}
}

// withdraw ends the wait with number Seq, unless it is a kept one, because no
// call waits for it any more. The grant may have come first: then the pair
// holds, and Undo says that nobody was told, so that the grant is taken back.
func (e *editor) withdraw(c *Command) Result {
	has, ok := e.claims.Get(claimKey{c.Session, c.Path, c.Handle})
	if !ok || c.Seq == 0 { // 0 is the WaitSeq of every grant made at once, and no wait's number
		return Result{Verdict: Nothing}
	}
	if w := has.wait; w != nil {
		switch {
		case w.Seq != c.Seq:
			return Result{Verdict: Nothing}
		case w.Keep:
			return Result{Verdict: Queued, Wait: w}
		}
		e.dropWait(w)
		e.settle(c.Path)
		return Result{Verdict: Done}
	}
	h := has.hold
	switch {
	case h.WaitSeq != c.Seq:
		return Result{Verdict: Nothing}
	case !c.Undo || h.EventSeq != 0:
		return Result{Verdict: Held, Hold: h}
	}
	e.dropHold(h)
	e.settle(c.Path)
	return Result{Verdict: Done}
}

// delay starts a lock-delay. One that is in force already is covered by it: the
// longer of the two lengths counts when a new master starts it anew.
func (e *editor) delay(path string, ms int64) {
	l := e.lock(path)
	l.DelayID = e.nextSeq()
	l.DelayMS = max(l.DelayMS, ms)
	e.putLock(l)
	e.emit(Event{Kind: EventDelay, Path: path, DelayID: l.DelayID, DelayMS: ms})
}

func (e *editor) endDelay(c *Command) Result {
	l := e.lock(c.Path)
	if l.DelayID == 0 || l.DelayID != c.Seq {
		return Result{Verdict: Nothing}
	}
	l.DelayID, l.DelayMS = 0, 0
	e.putLock(l)
	e.emit(Event{Kind: EventDelayOver, Path: c.Path, DelayID: c.Seq})
	e.settle(c.Path)
	return Result{Verdict: Done}
}
