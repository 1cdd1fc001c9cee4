package server

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"reflect"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// serves is the route of a call: its type says what the request has, and its row in
// package master who may make it and how it is answered. status is that of a good
// answer.
func serves[C any](method, template, pattern string, status int) route {
	t := reflect.TypeFor[C]()
	row, d := master.RowOf(reflect.PointerTo(t)), decoderOf(t)
	r := route{method: method, template: template, pattern: pattern, asks: row.Right, audits: row.Audit, params: d.params}
	if row.Reads {
		r.params = append(r.params, paramConsistency)
	}
	r.handle = func(x *exchange) error {
		c, err := d.decode(x)
		if err != nil {
			return err
		}
		return x.do(row, status, c)
	}
	return r
}

// do has the master serve a call, or this replica where its own state will do. A read
// tells of which revision it is.
func (x *exchange) do(row *master.Row, status int, c lockapi.Call) error {
	stale, err := x.query.stale()
	if err != nil {
		return err
	}
	x.node = cmp.Or(row.Path(c), x.node)
	t := task{repeatable: row.Reads, stale: stale, heavy: row.Heavy}
	t.run = func(ctx context.Context) (int, any, error) {
		answer, out, err := x.master.Do(ctx, x.caller(), stale, c)
		x.noted.told = out.Told
		if row.Reads && (err == nil || !errors.Is(err, lockapi.CodeNoMaster)) {
			x.c.Writer.Header()[lockapi.HeaderRevision] = []string{strconv.FormatUint(out.Revision, 10)}
		}
		return status, answer, err
	}
	return x.dispatch(t)
}

// decoder reads calls of one type from requests.
type decoder struct {
	call   reflect.Type
	fields []func(x *exchange, call reflect.Value) error
	params []param // of the query
}

// decoderOf reads the tags of a call's fields: see lockapi.Call. It panics where one
// has a tag that is none.
func decoderOf(call reflect.Type) *decoder {
	d := &decoder{call: call}
	var body, query []func(*exchange, reflect.Value) error
	for i := range call.NumField() {
		f := call.Field(i)
		switch name, inQuery := f.Tag.Lookup("query"); {
		case f.Anonymous:
			body = append(body, func(x *exchange, c reflect.Value) error { return decode(x.body, c.Field(i).Addr().Interface()) })
		case inQuery:
			p := param{name: name, need: f.Tag.Get("need")}
			d.params = append(d.params, p)
			query = append(query, func(x *exchange, c reflect.Value) error { return x.query.into(p, c.Field(i).Addr().Interface()) })
		default:
			read := inPath[f.Tag.Get("path")]
			if read == nil {
				panic("server: field " + f.Name + " of " + call.Name() + " does not say where it travels")
			}
			d.fields = append(d.fields, func(x *exchange, c reflect.Value) error {
				value, err := read(x.c.Param)
				c.Field(i).SetString(value)
				return err
			})
		}
	}
	d.fields = append(append(d.fields, body...), query...)
	return d
}

// decode reads the call that a request makes, and validates it.
func (d *decoder) decode(x *exchange) (lockapi.Call, error) {
	c := reflect.New(d.call)
	for _, read := range d.fields {
		if err := read(x, c.Elem()); err != nil {
			return nil, err
		}
	}
	if v, ok := c.Interface().(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	x.body = trimBody(x.body)
	return c.Interface(), nil
}

// inPath reads what stands in a request's path, by the tag of the field that it is
// for; of returns a variable of the pattern.
var inPath = map[string]func(of func(string) string) (string, error){
	"lock": func(of func(string) string) (string, error) { return lockapi.UnescapePath(of("path")) },
	"rule": func(of func(string) string) (string, error) { return lockapi.UnescapeRulePath(of("path")) },
	"id":   func(of func(string) string) (string, error) { return sessionID(of("id")) },
	"group": func(of func(string) string) (string, error) {
		name, err := url.PathUnescape(of("name"))
		if err != nil {
			return "", lockapi.Invalid("name", "the name %q of a group is malformed", lockapi.Clip(of("name")))
		}
		return name, lockapi.ValidateGroup(name)
	},
}

// into reads a parameter into a field.
func (q query) into(p param, field any) (err error) {
	switch f := field.(type) {
	case *string:
		*f = q.of(p)
	case **string:
		if value, given := q[p.name]; given {
			*f = &value
		}
	case *bool:
		*f, err = q.flag(p)
	case *int:
		*f, err = q.limit()
	}
	return err
}
