package history

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// shelf is the state of the keys of a directory, the locks at their paths, and
// the sessions involved. The API's calls about these files and locks are a part
// of it.
type shelf struct {
	keys    []storedKey // sorted by path
	holds   []keyHold   // sorted by path
	delayed []string    // paths and sessions
	ended   []string    // sessions
	last    uint64      // later changes have a higher revision
	lives   map[string]*life
}

// storedKey is a key in the model.
type storedKey struct {
	path, sum      string
	flags, locks   uint64
	create, modify stamp
	fresh          bool // unchanged since its creation
}

// stamp is the revision of a change. The door reports it to readers only. Until
// then it is above low, and at most high unless that is 0.
type stamp struct{ at, low, high uint64 }

// is reports whether the revision is n.
func (s stamp) is(n uint64) answer {
	switch {
	case s.at != 0:
		return truth(s.at == n)
	case n <= s.low || s.high != 0 && n > s.high:
		return no
	}
	return either
}

// sealed returns the stamp of a change that was made at revision n or before.
func (s stamp) sealed(n uint64) stamp {
	if s.at == 0 && s.high == 0 {
		s.high = n
	}
	return s
}

func truth(b bool) answer {
	if b {
		return yes
	}
	return no
}

// keyHold is a session's hold of a lock. door is set if the door took it.
type keyHold struct {
	path, session, handle string
	door                  bool
}

func (d *shelf) certain(s *step) *shelf {
	n := *d
	n.keys, n.holds = slices.Clone(d.keys), slices.Clone(d.holds)
	switch ended := contains(d.ended, s.session); {
	case s.kind == gone:
		return where(d, ended)
	case s.kind == delayOver:
		n.delayed = without(d.delayed, s.who)
	case s.kind == called:
		t := &keyRun{shelf: n, attempt: s.attempt}
		ok := t.call()
		return where(&t.shelf, ok)
	case ended:
		return d
	default:
		n.end(s.session, s.kind == expiry)
	}
	return &n
}

// end ends a session and its holds. That changes or deletes the keys that the
// door had locked.
func (d *shelf) end(session string, expired bool) {
	d.ended = with(d.ended, session)
	of := d.lives[session]
	for _, h := range slices.Clone(d.holds) {
		if h.session != session {
			continue
		}
		d.release(h.path)
		if !h.door {
			continue
		}
		if expired && of.delayMS > 0 {
			d.delayed = with(d.delayed, h.path+" "+session)
		}
		at, found := d.find(h.path)
		switch {
		case found && of.deletes:
			d.keys = slices.Delete(d.keys, at, at+1)
		case found:
			d.keys[at].modify, d.keys[at].fresh = stamp{low: d.last}, false
		}
	}
}

func (d *shelf) find(path string) (at int, found bool) {
	return slices.BinarySearchFunc(d.keys, path, func(k storedKey, path string) int { return compare(k.path, path) })
}

// holder returns the hold of the lock at a path; the zero value for none.
func (d *shelf) holder(path string) keyHold {
	for _, h := range d.holds {
		if h.path == path {
			return h
		}
	}
	return keyHold{}
}

func (d *shelf) hold(h keyHold) {
	d.release(h.path)
	d.holds = append(d.holds, h)
	slices.SortFunc(d.holds, func(x, y keyHold) int { return compare(x.path, y.path) })
}

func (d *shelf) release(path string) {
	d.holds = slices.DeleteFunc(d.holds, func(h keyHold) bool { return h.path == path })
}

// lockable reports whether a pair can acquire the lock at a path, or has it.
func (d *shelf) lockable(want keyHold) bool {
	now := d.holder(want.path)
	return now == want || now == keyHold{} && !d.delays(want.path)
}

func (d *shelf) delays(path string) bool {
	return slices.ContainsFunc(d.delayed, func(s string) bool { return strings.HasPrefix(s, path+" ") })
}

// reach notes that the cell is at revision n, and reports whether that is
// possible.
func (d *shelf) reach(n uint64) bool {
	if n < d.last {
		return false
	}
	d.last = n
	for i := range d.keys {
		k := &d.keys[i]
		k.create, k.modify = k.create.sealed(n), k.modify.sealed(n)
	}
	return true
}

// shows notes the revisions at which an answer shows a key, and reports whether
// the key can be so.
func (d *shelf) shows(at int, f *lockapi.Key, content bool) bool {
	k := &d.keys[at]
	if f.Path != k.path || f.Flags != k.flags || f.Locks != k.locks || f.Session != d.holder(k.path).session || content && sum(f.Content) != k.sum {
		return false
	}
	return d.dates(at, f.CreateIndex, f.ModifyIndex)
}

func (d *shelf) dates(at int, create, modify uint64) bool {
	k := &d.keys[at]
	if k.create.is(create) == no || k.modify.is(modify) == no || create > modify || k.fresh && create != modify || !k.fresh && create == modify {
		return false
	}
	k.create.at, k.modify.at = create, modify
	d.last = max(d.last, modify)
	return true
}

func (d *shelf) equal(o *shelf) bool {
	return d.last == o.last && slices.Equal(d.keys, o.keys) && slices.Equal(d.holds, o.holds) &&
		slices.Equal(d.ended, o.ended) && slices.Equal(d.delayed, o.delayed)
}

func (d *shelf) hash() uint64 {
	h := d.last
	for i := range d.keys {
		h = h*31 + d.keys[i].modify.at + maphash.String(seed, d.keys[i].sum)
	}
	for i := range d.holds {
		h = h*31 + maphash.String(seed, d.holds[i].session+d.holds[i].path)
	}
	return h*31 + uint64(len(d.ended)) + uint64(len(d.delayed))
}

func (d *shelf) String() string {
	var b strings.Builder
	for i := range d.keys {
		k := &d.keys[i]
		fmt.Fprintf(&b, "%s %.8s locks=%d flags=%d %s at %d (above %d); ", k.path, k.sum, k.locks, k.flags, short(d.holder(k.path).session), k.modify.at, k.modify.low)
	}
	fmt.Fprintf(&b, "%d holds, delayed %v, %d sessions ended, revision %d", len(d.holds), d.delayed, len(d.ended), d.last)
	return b.String()
}
