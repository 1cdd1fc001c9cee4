package server

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/codec"
	"github.com/stoutlock/stout/master"
)

// plan has what a route needs in addition to the type of its call, or instead.
type plan[C any] struct {
	status int                         // of a successful answer
	waits  bool                        // the call implements waiting
	keyed  bool                        // the call implements keyed
	decode func(*exchange) (*C, error) // replaces the decoder built from the tags
	params []param                     // query parameters read by decode
	body   int64                       // as in route
	before func(*exchange, *C) error   // called with the valid call
	// reply builds the reply from the answer; nil sends the answer with the
	// route's status.
	reply func(*exchange, *C, any, master.Outcome) (status int, body any)
}

// serves returns the route of a call. The type of the call describes the
// request; its row in package master has the required right and the method that
// serves it. status is the status of a successful answer.
func serves[C any](method, pattern string, status int, but ...plan[C]) route {
	t := reflect.TypeFor[C]()
	row, p := master.RowOf(reflect.PointerTo(t)), plan[C]{}
	if len(but) > 0 {
		p = but[0]
	}
	p.status = status
	_, p.waits = any(new(C)).(waiting)
	_, p.keyed = any(new(C)).(keyed)
	if p.decode == nil {
		d := decoderOf(t)
		p.params = d.params
		p.decode = func(x *exchange) (*C, error) {
			c := new(C)
			return c, d.decode(x, c)
		}
	}
	r := route{method: method, template: templateOf(pattern), pattern: pattern, asks: row.Right, audits: row.Audit, params: p.params, body: p.body}
	if row.Reads {
		r.params = append(r.params, paramConsistency)
	}
	r.handle = func(x *exchange) error {
		c, err := p.decode(x)
		if c != nil {
			// The audit log also gets the path of a call that is malformed
			// elsewhere.
			if path := row.Path(c); err == nil || lockapi.ValidateRulePath(path) == nil {
				x.node = path
			}
		}
		if err != nil {
			return err
		}
		if p.before != nil {
			if err := p.before(x, c); err != nil {
				return err
			}
		}
		return do(x, row, c, &p)
	}
	return r
}

// handled returns the route of a call that has a handler of its own.
func handled[C any](method, path string, handle func(*exchange) error) route {
	row := master.RowOf(reflect.TypeFor[*C]())
	return route{method: method, template: path, pattern: path, asks: row.Right, audits: row.Audit, handle: handle}
}

// do lets the master serve a call, or this replica if its own state is enough.
// The answer to a read includes the revision that it reflects.
func do[C any](x *exchange, row *master.Row, c *C, p *plan[C]) error {
	stale, err := x.query.stale()
	if err != nil {
		return err
	}
	t := task{repeatable: row.Reads || row.Repeats, stale: stale, leads: row.Leads}
	switch {
	case p.waits:
		x.waits = any(c).(waiting)
		ms, _ := x.waits.Waiting()
		t.wait = time.Duration(*ms) * time.Millisecond
	case p.keyed:
		t.keyed = any(c).(keyed).Keyed()
	}
	t.run = func(ctx context.Context) (int, any, error) {
		if err := x.pace(row.Frees); err != nil {
			return 0, nil, err
		}
		answer, out, err := x.do(ctx, stale, c)
		if row.Reads && (err == nil || !errors.Is(err, lockapi.CodeNoMaster)) {
			x.c.Writer.Header()[lockapi.HeaderRevision] = []string{strconv.FormatUint(out.Revision, 10)}
		}
		if err != nil {
			return 0, nil, err
		}
		if p.reply == nil {
			return p.status, answer, nil
		}
		status, body := p.reply(x, c, answer, out)
		return status, body, nil
	}
	if row.Own {
		return x.answer(t)
	}
	return x.dispatch(t)
}

// do lets this replica's master serve a call, and notes its findings for the
// audit log, in addition to an earlier attempt's.
func (x *exchange) do(ctx context.Context, stale bool, c lockapi.Call) (any, master.Outcome, error) {
	adopted := x.noted.checked.Adopted
	answer, out, err := x.master.Do(ctx, x.caller(), stale, c)
	x.noted.checked = out.Checked
	x.noted.checked.Adopted = cmp.Or(out.Adopted, adopted)
	return answer, out, err
}

// Optional methods of a call: see lockapi.Call.
type (
	defaulting interface{ SetDefaults() }
	validating interface{ Validate() error }
	waiting    interface {
		Waiting() (waitMS *int64, body any)
	}
	keyed interface{ Keyed() bool } // whether the cell recognizes a repetition
)

// decoder decodes requests into calls of one type.
type decoder struct {
	readers  []reader
	params   []param // of the query
	defaults bool    // the call implements defaulting
	valid    bool    // the call implements validating
}

// reader decodes one part of a request into a call.
type reader func(x *exchange, call reflect.Value) error

// decoderOf builds a decoder from the tags of a call's fields: see
// lockapi.Call. It panics if a field has no place in the request.
func decoderOf(call reflect.Type) *decoder {
	d := &decoder{defaults: reflect.PointerTo(call).Implements(reflect.TypeFor[defaulting]()), valid: reflect.PointerTo(call).Implements(reflect.TypeFor[validating]())}
	var late []reader // after the parameters in the path
	for _, f := range reflect.VisibleFields(call) {
		at := fieldAt(f.Index)
		name, inQuery := f.Tag.Lookup("query")
		header, inHeader := f.Tag.Lookup("header")
		switch read := inPath[f.Tag.Get("path")]; {
		case read != nil:
			d.readers = append(d.readers, func(x *exchange, c reflect.Value) error {
				value, err := read(x.c.Params)
				at(c).SetString(value)
				return err
			})
		case inQuery:
			p, only := param{name: name, need: f.Tag.Get("need")}, f.Tag.Get("only")
			d.params = append(d.params, p)
			late = append(late, func(x *exchange, c reflect.Value) error {
				if only == "" {
					return x.query.into(p, at(c).Addr().Interface())
				}
				given, err := x.query.choiceOf(p, only)
				at(c).SetBool(given)
				return err
			})
		case inHeader:
			late = append(late, func(x *exchange, c reflect.Value) error {
				value, err := x.header(header)
				at(c).SetString(value)
				return err
			})
		case f.Anonymous && f.Tag.Get("body") == "-":
		case f.Anonymous:
			late = append(late, func(x *exchange, c reflect.Value) error { return codec.Decode(x.body, at(c).Addr().Interface()) })
		case len(f.Index) == 1:
			panic("server: field " + f.Name + " of " + call.Name() + " has no place in the request")
		}
	}
	d.readers = append(d.readers, late...)
	return d
}

func fieldAt(index []int) func(reflect.Value) reflect.Value {
	if len(index) == 1 {
		i := index[0]
		return func(c reflect.Value) reflect.Value { return c.Field(i) }
	}
	return func(c reflect.Value) reflect.Value { return c.FieldByIndex(index) }
}

func (d *decoder) decode(x *exchange, c lockapi.Call) error {
	if d.defaults {
		c.(defaulting).SetDefaults()
	}
	into := reflect.ValueOf(c).Elem()
	for _, read := range d.readers {
		if err := read(x, into); err != nil {
			return err
		}
	}
	if d.valid {
		if err := c.(validating).Validate(); err != nil {
			return err
		}
	}
	x.body = codec.Compact(x.body)
	return nil
}

// inPath decodes parameters in the path, by the field's tag.
var inPath = map[string]func(gin.Params) (string, error){
	"lock":   func(of gin.Params) (string, error) { return lockapi.UnescapePath(of.ByName("path")) },
	"rule":   func(of gin.Params) (string, error) { return lockapi.UnescapeRulePath(of.ByName("path")) },
	"id":     func(of gin.Params) (string, error) { return sessionID(of.ByName("id")) },
	"member": func(of gin.Params) (string, error) { return memberID(of.ByName("id")) },
	"quota":  func(of gin.Params) (string, error) { return quotaOf(of.ByName("principal")) },
	"group": func(of gin.Params) (string, error) {
		name, err := url.PathUnescape(of.ByName("name"))
		if err != nil {
			return "", lockapi.Invalid("name", "the group's name %q is malformed", lockapi.Clip(of.ByName("name")))
		}
		return name, lockapi.ValidateGroup(name)
	},
}

// quotaOf decodes the principal or group in the path of a quota. Its slashes may
// be escaped or not.
func quotaOf(escaped string) (string, error) {
	of, err := url.PathUnescape(strings.TrimPrefix(escaped, "/"))
	if err != nil {
		return "", lockapi.Invalid("principal", "the principal %q is malformed", lockapi.Clip(escaped))
	}
	return of, lockapi.ValidateQuotaOf(of)
}

func (q query) into(p param, field any) (err error) {
	switch f := field.(type) {
	case *string:
		*f = q[p.name]
	case **string:
		if value, given := q[p.name]; given {
			*f = &value
		}
	case *bool:
		*f, err = q.flag(p)
	case *uint64:
		*f, err = q.number(p, 1, lockapi.MaxToken, 0)
	case *lockapi.Sequencer:
		*f, err = lockapi.ParseSequencer(q[p.name])
	case *int:
		var n uint64
		n, err = q.number(p, within[p.name][0], within[p.name][1], uint64(*f))
		*f = int(n)
	}
	return err
}

var within = map[string][2]uint64{"limit": {1, lockapi.MaxListLimit}, "waiters": {0, lockapi.MaxWaiters}}

// sessionID decodes the session id in the path. The cell creates ids; one that
// no session can have is refused by the rules for path segments.
func sessionID(raw string) (string, error) {
	id, err := url.PathUnescape(raw)
	if err != nil || id == "" || !utf8.ValidString(id) || strings.Contains(id, "/") {
		return "", lockapi.Invalid("id", "the session id %q is malformed", lockapi.Clip(raw))
	}
	return id, nil
}

// header returns the value of a header that may be given at most once; empty if
// it is not given.
func (x *exchange) header(name string) (string, error) {
	values := x.c.Request.Header.Values(name)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", lockapi.Invalid(name, "the header %s is given more than once", name)
}

// memberID decodes the member's name in the path. A name that no member can
// have gives not_found.
func memberID(raw string) (string, error) {
	id, err := url.PathUnescape(raw)
	switch {
	case err != nil || id == "":
		return "", lockapi.Invalid("id", "the replica's name %q is malformed", lockapi.Clip(raw))
	case len(id) > lockapi.MaxMemberIDBytes:
		return "", lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member of this cell", lockapi.Clip(id))
	}
	return id, nil
}

// checkDirectory refuses an invalid or empty directory.
func checkDirectory(x *exchange, c *lockapi.RemoveMember) error {
	if _, given := x.query[paramDirectory.name]; !given {
		return nil
	}
	return lockapi.ValidateDirectory(c.Directory)
}
