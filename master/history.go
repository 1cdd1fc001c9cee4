package master

import (
	"context"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// GetHistory returns what this replica remembers of the lock and the file at a
// path. It needs no master, and never blocks.
func (m *Master) GetHistory(ctx context.Context, q *Read, c *lockapi.GetHistory) (lockapi.History, error) {
	q.Stale = true
	return read(ctx, m, q, func(*office, *state.State) (lockapi.History, error) {
		past := m.log.Events().Past(c.Path, c.Limit)
		out := lockapi.History{Path: c.Path, Events: make([]lockapi.PastEvent, 0, len(past.Events)), More: past.More, Oldest: past.Oldest, Revision: past.Revision}
		if past.Since != 0 {
			out.Since = new(time.Unix(0, past.Since).UTC())
		}
		size := 0
		for i := range past.Events {
			if out.More = out.More || size >= lockapi.PageBytes; size >= lockapi.PageBytes {
				break
			}
			one := pastEventOf(&past.Events[i])
			size += pastFrame + textSize(one.Path, one.By, one.SessionName, one.Principal, one.Handle)
			out.Events = append(out.Events, one)
		}
		return out, nil
	})
}

// pastEventOf converts an event, with how it came about.
func pastEventOf(e *events.Event) lockapi.PastEvent {
	out := lockapi.PastEvent{Revision: e.Revision, Type: lockapi.EventType(e.Type.String()), At: time.Unix(0, e.At()).UTC(),
		Path: e.Path, Reason: e.Reason(), By: e.Ending().By}
	if silent := e.Ending().SilentMS; silent > 0 {
		out.SilentMS = &silent
	}
	out.Epoch, out.Master = e.Master()
	if o := e.Owner(); o != nil {
		out.SessionName, out.Principal, out.TTLMS = o.Name, o.Principal, o.TTL.Milliseconds()
	}
	if h := e.Hold(); h != nil {
		out.Session, out.Handle, out.Mode, out.Token = h.Session, h.Handle, mode(h.Mode), h.Token
		if e.Type == events.LockReleased {
			out.HeldMS = new(time.Duration(e.At() - h.GrantedAt).Milliseconds())
		}
		if waited, ok := e.Waited(); ok {
			out.WaitedMS = new(waited.Milliseconds())
		}
	}
	if w := e.Wait(); w != nil {
		out.Session, out.Handle, out.Mode = w.Session, w.Handle, mode(w.Mode)
	}
	if f := e.File(); f != nil {
		out.Session, out.Generation, out.Size = f.Session, f.Generation, f.Size
		if e.Type != events.FileDeleted {
			out.By = f.Principal
		}
	}
	return out
}
