// Package decode reads the JSON of a cell's answers, faster than encoding/json
// does. Whether an answer is right is checked elsewhere.
package decode

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// JSON decodes an answer's JSON into out. The most frequent answers are read
// here, in the form that replicas write. Any other form, for example an unknown
// field or a space, goes to encoding/json as a whole.
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
	case *lockapi.Lock, *lockapi.Grant, *lockapi.Released, *lockapi.FileStat, *lockapi.File, *lockapi.Problem:
		ok = r.structure(reflect.ValueOf(out).Elem())
	case *lockapi.CellEvent:
		ok = r.event(out)
	}
	return ok && (len(r.rest) == 0 || string(r.rest) == "\n")
}

// field is a field of a struct: its name in JSON and its index.
type field struct {
	name  string
	index []int
}

var structures sync.Map // the []field of each reflect.Type

func fieldsOf(t reflect.Type) (fields []field) {
	if known, ok := structures.Load(t); ok {
		return known.([]field)
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields = append(fields, field{name, f.Index})
		}
	}
	structures.Store(t, fields)
	return fields
}

// structure reads an object into a struct. Replicas write fields in the order
// of the struct, so the search for a name begins after the one before.
func (r *reader) structure(v reflect.Value) bool {
	fields, next := fieldsOf(v.Type()), 0
	return r.object(func(name []byte) bool {
		for range fields {
			f := &fields[next%len(fields)]
			next++
			if string(name) == f.name {
				return r.value(part(v, f.index))
			}
		}
		return false
	})
}

// part returns a field of a struct, which may be a field of an embedded one.
func part(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// value reads a field of any type that occurs in the answers.
func (r *reader) value(v reflect.Value) bool {
	switch to := v.Addr().Interface().(type) {
	case *string:
		return r.text(to)
	case *lockapi.Mode:
		return r.text((*string)(to))
	case *lockapi.Code:
		return r.text((*string)(to))
	case *int:
		return number(r, to)
	case *int64:
		return number(r, to)
	case *uint64:
		return number(r, to)
	case *bool:
		return r.boolean(to)
	case *time.Time:
		return r.time(to)
	case *[]byte:
		return r.bytes(to)
	case *map[string]string:
		return r.texts(to)
	case *[]lockapi.Holder:
		return readAll(r, to)
	case *[]lockapi.Waiter:
		return readAll(r, to)
	case *[]lockapi.GrantPart:
		return readAll(r, to)
	case **json.RawMessage:
		return r.current(to)
	}
	if v.Kind() != reflect.Pointer {
		return false
	}
	v.Set(reflect.New(v.Type().Elem()))
	return r.value(v.Elem())
}

// readAll reads an array of structs.
func readAll[T any](r *reader, to *[]T) bool {
	if *to != nil { // a second value is refused
		return false
	}
	*to = []T{}
	return r.array(func() bool {
		*to = append(*to, *new(T))
		return r.structure(reflect.ValueOf(&(*to)[len(*to)-1]).Elem())
	})
}

// current copies a file's JSON unchanged.
func (r *reader) current(to **json.RawMessage) bool {
	before := r.rest
	if *to != nil || !r.structure(reflect.ValueOf(new(lockapi.File)).Elem()) {
		return false
	}
	*to = new(json.RawMessage(bytes.Clone(before[:len(before)-len(r.rest)])))
	return true
}

// event reads the flat object of an event: fields of a file and of a lock may
// have the same name.
func (r *reader) event(v *lockapi.CellEvent) bool {
	var all struct {
		lockapi.File
		lockapi.EventMaster
		Type        string       `json:"type"`
		Reason      string       `json:"reason"`
		SessionName string       `json:"session_name"`
		Handle      string       `json:"handle"`
		Mode        lockapi.Mode `json:"mode"`
		Token       uint64       `json:"token"`
	}
	ok := r.structure(reflect.ValueOf(&all).Elem())
	*v = lockapi.CellEvent{Revision: all.Revision, Type: lockapi.EventType(all.Type), Path: all.Path, Reason: all.Reason}
	switch v.Type.Subject() {
	case lockapi.SubjectFile:
		v.File = &all.File
	case lockapi.SubjectLock:
		v.Hold = &lockapi.EventHold{Session: all.Session, SessionName: all.SessionName, Handle: all.Handle, Mode: all.Mode, Token: all.Token}
	case lockapi.SubjectMaster:
		v.Master = &all.EventMaster
	}
	return ok
}
