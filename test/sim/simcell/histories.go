package simcell

import (
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// The oracle checks a replica's history of a path against the log here. The
// cause of a change is taken from the change itself, which equals the model's.

// causes holds the cause of each change by revision, parallel to the events of
// revisions.
type causes struct{ all []origin } // from revision 1 on

// origin is the cause of a change. Times are the cell's, in Unix nanoseconds.
type origin struct {
	at     int64
	owners []*state.Session // owner of the hold, wait or end, before and after the entry
	end    *cause           // of an ended hold
	by     string           // of a file: the principal of the command that changed it
	file   uint64           // the file's instance
	waited int64            // of a grant from the queue: when the wait began
	held   int64            // of an ended hold: when it was granted
}

// cause is the reason for the end of a hold.
type cause struct {
	reason, by string
	silentMS   int64
}

// add adds the causes of an entry's changes. It is called after revisions has
// the entry.
func (c *causes) add(before, after *state.State, out state.Outcome) {
	if c == nil {
		return
	}
	for _, change := range out.Changes {
		var o origin
		switch change := change.(type) {
		case state.OfficeOpened:
			o.at = change.At
		case state.Enqueued:
			o.at, o.owners = change.Wait.Since, sessions(before, after, out, change.Wait.Session)
		case state.Granted:
			o.at, o.owners = change.Hold.GrantedAt, sessions(before, after, out, change.Hold.Session)
			if change.Wait != nil {
				o.waited = change.Wait.Since
			}
		case state.Released:
			e := change.Ending
			o.at, o.owners, o.held = e.At, sessions(before, after, out, change.Hold.Session), change.Hold.GrantedAt
			o.end = &cause{reason: reasonOf(change.Reason), by: e.By, silentMS: e.SilentMS}
		case state.FileChanged:
			o.at, o.by, o.file = change.File.ModifiedAt, change.File.Principal, change.File.Instance
		case state.FileDeleted:
			o.at, o.by, o.file = change.Ending.At, change.Ending.By, change.File.Instance
		}
		if revisionOf(change) != 0 {
			c.all = append(c.all, o)
		}
	}
}

// sessions returns the states of a session in an entry. It may have had no
// known principal before.
func sessions(before, after *state.State, out state.Outcome, id string) (all []*state.Session) {
	for _, s := range []*state.State{before, after} {
		if v, ok := s.Session(id); ok {
			all = append(all, v)
		}
	}
	for _, c := range out.Changes {
		switch c := c.(type) {
		case state.SessionOpened:
			if c.Session.ID == id {
				all = append(all, c.Session)
			}
		case state.SessionAdopted:
			if c.Session.ID == id {
				all = append(all, c.Session)
			}
		}
	}
	return all
}

// recounted checks a replica's history of a path. It must contain everything
// that happened there, with the changes of master in between, as far back as it
// claims, and with the right causes.
func (o *oracle) recounted(by, path string, limit int, got *lockapi.History) {
	o.checks("reported history")
	last := o.revisions.revision()
	kept := int(got.Revision) - int(got.Oldest)
	switch {
	case got.Revision > last || got.Oldest > got.Revision || !o.revisions.whole(got.Revision):
		o.w.fail("%s returns the history of %s from revision %d to %d; the last is %d", by, path, got.Oldest, got.Revision, last)
		return
	case kept > o.w.profile.events:
		o.w.fail("%s claims all events since revision %d, at revision %d; it should keep %d events", by, got.Oldest, got.Revision, o.w.profile.events)
	case (got.Since == nil) != (kept == 0):
		o.w.fail("%s claims all events since %v, which is revision %d of %d", by, got.Since, got.Oldest, got.Revision)
	case got.Since != nil && o.causes.of(got.Oldest+1).at != got.Since.UnixNano():
		o.w.fail("%s claims all events since %v; revision %d was at %d", by, got.Since, got.Oldest+1, o.causes.of(got.Oldest+1).at)
	}
	o.reported = max(o.reported, o.revisions.events[got.Revision].index)
	want, more := o.revisions.past(path, limit, got.Oldest, got.Revision)
	for i, r := range want {
		if i >= len(got.Events) || got.Events[i].Revision != r {
			o.w.fail("%s returns for %s the revisions %v; want %v (from %d to %d, limit %d)", by, path, pastRevisions(got.Events), want, got.Oldest, got.Revision, limit)
			return
		}
		if wrong := o.causes.wrong(&got.Events[i], &o.revisions.events[r]); wrong != "" {
			o.w.fail("%s returns for %s at revision %d %+v: %s", by, path, r, got.Events[i], wrong)
		}
	}
	if len(got.Events) > len(want) || got.More != more {
		o.w.fail("%s returns for %s the revisions %v, and that there is more: %v; want %v, and %v", by, path, pastRevisions(got.Events), got.More, want, more)
	}
}

func pastRevisions(all []lockapi.PastEvent) (out []uint64) {
	for i := range all {
		out = append(out, all[i].Revision)
	}
	return out
}

// past returns the revisions in a history, newest first, and whether it leaves
// out older ones of the path.
func (y *revisions) past(path string, limit int, oldest, newest uint64) (told []uint64, more bool) {
	own, masters := 0, 0
	for r := newest; r > oldest; r-- {
		switch h := &y.events[r]; {
		case h.path == path && own == limit:
			return told, true
		case h.path == path:
			told = append(told, r)
			own++
		case h.kind == lockapi.EventMasterChanged && own < limit && masters < limit:
			told = append(told, r)
			masters++
		}
	}
	return told, false
}

// of returns the cause of the change with a revision.
func (c *causes) of(revision uint64) *origin { return &c.all[revision-1] }

// wrong returns what is wrong with a reported change, or "".
func (c *causes) wrong(e *lockapi.PastEvent, h *expectedEvent) string {
	o, at := c.of(e.Revision), e.At.UnixNano()
	if line := pastLine(e, o); line != h.line {
		return "it was " + h.line
	}
	if o.at != at {
		return fmt.Sprintf("it was at %v", time.Unix(0, o.at).UTC())
	}
	if e.Type != lockapi.EventMasterChanged && e.Session != "" && o.owners != nil && !slices.ContainsFunc(o.owners, func(s *state.Session) bool {
		return s.Name == e.SessionName && s.Principal == e.Principal && s.TTLMS == e.TTLMS
	}) {
		return fmt.Sprintf("the session was %q with a ttl of %d ms, of %q", o.owners[0].Name, o.owners[0].TTLMS, o.owners[0].Principal)
	}
	switch e.Type {
	case lockapi.EventLockAcquired:
		if (e.WaitedMS == nil) != (o.waited == 0) || o.waited != 0 && !lasted(*e.WaitedMS, o.waited, at) {
			return fmt.Sprintf("the wait began at %d", o.waited)
		}
	case lockapi.EventLockReleased:
		return o.wrongEnd(e, at)
	case lockapi.EventFileCreated, lockapi.EventFileChanged, lockapi.EventFileDeleted:
		if o.by != e.By {
			return fmt.Sprintf("the command was by %q", o.by)
		}
	}
	return ""
}

// wrongEnd returns what is wrong with the reported end of a hold, or "". A
// session expires only after a silence of at least its ttl.
func (o *origin) wrongEnd(e *lockapi.PastEvent, at int64) string {
	said := cause{reason: e.Reason, by: e.By}
	if e.SilentMS != nil {
		said.silentMS = *e.SilentMS
	}
	switch {
	case *o.end != said:
		return fmt.Sprintf("it ended by %+v", *o.end)
	case said.silentMS != 0 && said.silentMS < e.TTLMS:
		return "it had not been silent for its ttl"
	case e.HeldMS == nil || !lasted(*e.HeldMS, o.held, at):
		return fmt.Sprintf("it was held since %v", time.Unix(0, o.held).UTC())
	}
	return ""
}

// lasted reports whether something may have lasted that long at a time.
func lasted(ms, since, at int64) bool {
	return at-since < (ms+1)*int64(time.Millisecond) && ms*int64(time.Millisecond) <= at-since
}

// pastLine describes an event of a history as a watcher would receive it.
func pastLine(e *lockapi.PastEvent, o *origin) string {
	as := lockapi.CellEvent{Revision: e.Revision, Type: e.Type, Path: e.Path, Reason: e.Reason}
	switch e.Type {
	case lockapi.EventMasterChanged:
		as.Master = &lockapi.EventMaster{Epoch: e.Epoch, Master: e.Master}
	case lockapi.EventFileCreated, lockapi.EventFileChanged, lockapi.EventFileDeleted:
		as.File = &lockapi.File{FileStat: lockapi.FileStat{Instance: o.file, Generation: e.Generation, Size: e.Size, Session: e.Session}}
	default:
		as.Hold = &lockapi.EventHold{Session: e.Session, SessionName: e.SessionName, Handle: e.Handle, Mode: e.Mode, Token: e.Token}
	}
	return lineOf(&as)
}
