package top

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// lists reads the list of the current page: locks and directories once, because
// events report changes; visible locks again for what events omit; and of
// sessions a part each second.
func (d *driver) lists(ctx context.Context) {
	done := map[page]listed{} // completed readings
	var sessions sessionReader
	defer sessions.stop()
	for ctx.Err() == nil {
		w, changed := d.wanted()
		what := listed{of: w.Prefix, missed: w.Missed, stale: d.stale(), read: true}
		if w.Page == filesPage {
			what.of = w.Dir
		}
		switch {
		case w.Paused:
		case w.Page == locksPage && !done[locksPage].serves(what):
			if d.readLocks(ctx, w) {
				done[locksPage] = what
			}
		case w.Page == locksPage:
			d.readAgain(ctx, w.Again)
		case w.Page == filesPage && !done[filesPage].serves(what):
			if d.readDir(ctx, w) {
				done[filesPage] = what
			}
		case w.Page == sessionsPage:
			for more := true; more && ctx.Err() == nil; {
				more = sessions.read(ctx, d)
			}
		}
		if w.Page != filesPage {
			delete(done, filesPage) // no event reports an empty directory
		}
		beat := d.beat
		if w.Page == sessionsPage {
			beat = d.pace()
		}
		select {
		case <-changed:
		case <-time.After(beat):
		case <-ctx.Done():
		}
	}
}

// listed identifies a completed reading.
type listed struct {
	of     string // the prefix or directory
	missed int
	stale  bool
	read   bool
}

// serves reports whether a list need not be read again. Events keep a list from
// the master up to date, even while there is no master.
func (l listed) serves(what listed) bool {
	what.stale = what.stale && l.stale
	return l == what
}

// part reads the items of a list up to a limit and sends each page of them.
// Each page has a time limit. It reports whether the list was completed.
func part[T any](ctx context.Context, d *driver, of string, list func(context.Context) iter.Seq2[T, error], send func(Part, []T)) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(patience, cancel)
	defer silent.Stop()
	p := Part{Of: of, Began: time.Now(), First: true, Stale: d.stale()}
	var batch []T
	flush := func(done bool) {
		p.At, p.Done = time.Now(), done
		send(p, batch)
		batch, p.First = nil, false
	}
	n := 0
	for item, err := range list(ctx) {
		if err != nil {
			p.Err = d.trouble(err)
			flush(true)
			return false
		}
		batch = append(batch, item)
		if n++; n == mostListed {
			p.Cut = true
			break
		}
		if len(batch) == lockapi.MaxListLimit {
			flush(false)
			sleep(ctx, min(partPause, d.beat))
			silent.Reset(patience)
		}
	}
	flush(true)
	return true
}

func (d *driver) readLocks(ctx context.Context, w Want) bool {
	list := func(ctx context.Context) iter.Seq2[lockapi.Lock, error] {
		return d.client.ListLocks(ctx, w.Prefix, d.options()...)
	}
	return part(ctx, d, w.Prefix, list, func(p Part, l []lockapi.Lock) { d.send(LocksRead{p, l}) })
}

func (d *driver) readDir(ctx context.Context, w Want) bool {
	list := func(ctx context.Context) iter.Seq2[client.DirEntry, error] {
		return d.client.ReadDir(ctx, w.Dir, d.options()...)
	}
	return part(ctx, d, w.Dir, list, func(p Part, e []client.DirEntry) { d.send(DirRead{p, e}) })
}

// readAgain reads visible locks.
func (d *driver) readAgain(ctx context.Context, paths []string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	msg := AgainRead{At: time.Now()}
	for _, path := range slices.Clone(paths) {
		if l, err := d.client.ReadLock(ctx, path, d.options()...); err == nil {
			msg.Locks = append(msg.Locks, l)
		}
	}
	if len(msg.Locks) > 0 {
		d.send(msg)
	}
}

// sessionReader reads the list of sessions in rounds.
type sessionReader struct {
	next  func() (lockapi.SessionState, error, bool)
	end   func() // ends the iteration
	part  Part
	count int
	round int // completed rounds

	cancel context.CancelFunc // cancels a call in flight
}

func (r *sessionReader) stop() {
	if r.end != nil {
		r.end()
	}
	r.next, r.end = nil, nil
}

// read reads a page of sessions and reports whether to read the next one at
// once, as in the first round.
func (r *sessionReader) read(ctx context.Context, d *driver) bool {
	if r.next == nil {
		bounded, cancel := context.WithCancel(ctx)
		next, stop := iter.Pull2(d.client.ListSessions(bounded, d.options()...))
		r.next, r.cancel, r.end = next, cancel, func() { stop(); cancel() }
		r.part, r.count = Part{Began: time.Now(), Stale: d.stale()}, 0
	}
	silent := time.AfterFunc(patience, r.cancel)
	defer silent.Stop()
	var batch []lockapi.SessionState
	for len(batch) < lockapi.MaxListLimit && r.count < mostListed {
		s, err, ok := r.next()
		if !ok {
			r.part.Done = true
			break
		}
		if err != nil {
			r.stop()
			d.send(SessionsRead{Part: Part{Began: r.part.Began, At: time.Now(), Err: d.trouble(err)}})
			return false
		}
		batch, r.count = append(batch, s), r.count+1
	}
	r.part.Cut = r.count == mostListed
	r.part.Done = r.part.Done || r.part.Cut
	r.part.At = time.Now()
	d.send(SessionsRead{r.part, batch})
	if r.part.Done {
		r.stop()
		r.round++
		return false
	}
	return r.round == 0
}
