// Package decode reads the JSON of a cell's answers, faster than encoding/json
// does. Whether an answer is right is checked elsewhere.
package decode

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/stoutlock/stout/lockapi"
)

// JSON decodes an answer's JSON into out. The most frequent answers have
// readers of their own, which know only the form that replicas write. Any other
// form, for example an unknown field or a space, goes to encoding/json as a
// whole.
func JSON(body []byte, out any) error {
	if readWhole(body, out) {
		return nil
	}
	reflect.ValueOf(out).Elem().SetZero() // undo a partial read
	return json.Unmarshal(body, out)
}

// readWhole reads a value after which nothing follows but the line end.
func readWhole(body []byte, out any) (ok bool) {
	r := reader{rest: body}
	switch out := out.(type) {
	case *lockapi.Lock:
		ok = r.lock(out)
	case *lockapi.Grant:
		ok = r.grant(out)
	case *lockapi.Released:
		ok = r.released(out)
	case *lockapi.FileStat:
		ok = r.object(func(name []byte) bool { return r.stat(name, out) })
	case *lockapi.File:
		ok = r.file(out)
	case *lockapi.Problem:
		ok = r.problem(out)
	case *lockapi.CellEvent:
		ok = r.event(out)
	}
	return ok && (len(r.rest) == 0 || string(r.rest) == "\n")
}

func (r *reader) lock(v *lockapi.Lock) bool {
	return r.object(func(name []byte) bool {
		switch string(name) {
		case "path":
			return r.text(&v.Path)
		case "state":
			return r.text(&v.State)
		case "mode":
			return r.text((*string)(&v.Mode))
		case "limit":
			return r.number(&v.Limit)
		case "holders":
			return readAll(r, &v.Holders, r.holder)
		case "more_holders":
			return r.integer(&v.MoreHolders)
		case "waiters":
			return r.integer(&v.Waiters)
		case "delay_remaining_ms":
			return r.number(&v.DelayRemainingMS)
		case "queue":
			return readAll(r, &v.Queue, r.waiter)
		}
		return false
	})
}

func (r *reader) grant(v *lockapi.Grant) bool {
	return r.object(func(name []byte) bool {
		switch string(name) {
		case "path":
			return r.text(&v.Path)
		case "state":
			return r.text(&v.State)
		case "session":
			return r.text(&v.Session)
		case "handle":
			return r.text(&v.Handle)
		case "mode":
			return r.text((*string)(&v.Mode))
		case "token":
			return r.token(&v.Token)
		case "sequencer":
			return r.text(&v.Sequencer)
		case "granted_at":
			return r.timeAt(&v.GrantedAt)
		case "position":
			return r.integer(&v.Position)
		case "with":
			return readAll(r, &v.With, r.grantPart)
		}
		return false
	})
}

func (r *reader) grantPart(v *lockapi.GrantPart) bool {
	return r.object(func(name []byte) bool {
		switch string(name) {
		case "path":
			return r.text(&v.Path)
		case "token":
			return r.token(&v.Token)
		case "sequencer":
			return r.text(&v.Sequencer)
		}
		return false
	})
}

func (r *reader) released(v *lockapi.Released) bool {
	return r.object(func(name []byte) bool { return string(name) == "released" && r.boolean(&v.Released) })
}

func (r *reader) problem(v *lockapi.Problem) bool {
	return r.object(func(name []byte) bool {
		switch string(name) {
		case "type":
			return r.text(&v.Type)
		case "title":
			return r.text(&v.Title)
		case "status":
			return r.integer(&v.Status)
		case "code":
			return r.text((*string)(&v.Code))
		case "detail":
			return r.text(&v.Detail)
		case "field":
			return r.text(&v.Field)
		case "holders":
			return readAll(r, &v.Holders, r.holder)
		case "more_holders":
			return r.integer(&v.MoreHolders)
		case "delay_remaining_ms":
			return r.number(&v.DelayRemainingMS)
		case "master":
			return r.text(&v.Master)
		case "directory":
			return r.text(&v.Directory)
		case "principal":
			return r.text(&v.Principal)
		case "permission":
			return r.text(&v.Permission)
		case "path":
			return r.text(&v.Path)
		case "command":
			return r.text(&v.Command)
		case "sequencer":
			return r.text(&v.Sequencer)
		case "quota":
			return r.text(&v.Quota)
		case "limit":
			v.Limit = new(int64)
			return r.number(v.Limit)
		case "used":
			v.Used = new(int64)
			return r.number(v.Used)
		case "operation":
			v.Operation = new(int)
			return r.integer(v.Operation)
		case "oldest", "revision":
			if v.Compacted == nil {
				v.Compacted = new(lockapi.Compacted)
			}
			if string(name) == "oldest" {
				return r.token(&v.Oldest)
			}
			return r.token(&v.Compacted.Revision)
		case "current":
			return r.current(&v.Current)
		}
		return false
	})
}

// current copies a file's JSON unchanged.
func (r *reader) current(to **json.RawMessage) bool {
	before, file := r.rest, lockapi.File{}
	if *to != nil || !r.file(&file) {
		return false
	}
	*to = new(json.RawMessage(bytes.Clone(before[:len(before)-len(r.rest)])))
	return true
}

func (r *reader) file(v *lockapi.File) bool {
	return r.object(func(name []byte) bool { return r.content(name, v) })
}

// content reads the named field of a file.
func (r *reader) content(name []byte, v *lockapi.File) bool {
	switch string(name) {
	case "content":
		v.Content = new(string)
		return r.text(v.Content)
	case "content_base64":
		return r.bytes(&v.ContentBase64)
	}
	return r.stat(name, &v.FileStat)
}

// event reads the flat object of an event: fields of a file and of a lock may
// have the same name.
func (r *reader) event(v *lockapi.CellEvent) bool {
	var kind, reason string
	file, hold, master := new(lockapi.File), lockapi.EventHold{}, lockapi.EventMaster{}
	ok := r.object(func(name []byte) bool {
		switch string(name) {
		case "type":
			return r.text(&kind)
		case "reason":
			return r.text(&reason)
		case "session_name":
			return r.text(&hold.SessionName)
		case "handle":
			return r.text(&hold.Handle)
		case "mode":
			return r.text((*string)(&hold.Mode))
		case "token":
			return r.token(&hold.Token)
		case "epoch":
			return r.token(&master.Epoch)
		case "master":
			return r.text(&master.Master)
		}
		return r.content(name, file)
	})
	*v = lockapi.CellEvent{Revision: file.Revision, Type: lockapi.EventType(kind), Path: file.Path, Reason: reason}
	switch v.Type.Subject() {
	case lockapi.SubjectFile:
		v.File = file
	case lockapi.SubjectLock:
		hold.Session = file.Session
		v.Hold = new(hold)
	case lockapi.SubjectMaster:
		v.Master = new(master)
	}
	return ok
}

// stat reads the named field of a file's stat.
func (r *reader) stat(name []byte, v *lockapi.FileStat) bool {
	switch string(name) {
	case "path":
		return r.text(&v.Path)
	case "revision":
		return r.token(&v.Revision)
	case "instance":
		return r.token(&v.Instance)
	case "generation":
		return r.token(&v.Generation)
	case "size":
		return r.integer(&v.Size)
	case "sha256":
		return r.text(&v.SHA256)
	case "session":
		return r.text(&v.Session)
	case "created_at":
		return r.time(&v.CreatedAt)
	case "principal":
		return r.text(&v.Principal)
	case "modified_at":
		return r.time(&v.ModifiedAt)
	}
	return false
}

// readAll reads an array with a reader of its elements.
func readAll[T any](r *reader, to *[]T, element func(*T) bool) bool {
	if *to != nil { // a second value is refused
		return false
	}
	*to = []T{}
	return r.array(func() bool {
		*to = append(*to, *new(T))
		return element(&(*to)[len(*to)-1])
	})
}

func (r *reader) holder(v *lockapi.Holder) bool {
	return r.object(func(name []byte) bool {
		switch string(name) {
		case "session":
			return r.text(&v.Session)
		case "session_name":
			return r.text(&v.SessionName)
		case "session_meta":
			return r.texts(&v.SessionMeta)
		case "handle":
			return r.text(&v.Handle)
		case "mode":
			return r.text((*string)(&v.Mode))
		case "token":
			return r.token(&v.Token)
		case "granted_at":
			return r.time(&v.GrantedAt)
		case "lock_delay_ms":
			return r.number(&v.LockDelayMS)
		case "principal":
			return r.text(&v.Principal)
		}
		return false
	})
}

func (r *reader) waiter(v *lockapi.Waiter) bool {
	return r.object(func(name []byte) bool {
		switch string(name) {
		case "session":
			return r.text(&v.Session)
		case "session_name":
			return r.text(&v.SessionName)
		case "session_meta":
			return r.texts(&v.SessionMeta)
		case "handle":
			return r.text(&v.Handle)
		case "mode":
			return r.text((*string)(&v.Mode))
		case "position":
			return r.integer(&v.Position)
		case "since":
			return r.time(&v.Since)
		case "waiting_ms":
			return r.number(&v.WaitingMS)
		case "priority":
			return r.number(&v.Priority)
		case "set":
			return r.integer(&v.Set)
		case "principal":
			return r.text(&v.Principal)
		}
		return false
	})
}
