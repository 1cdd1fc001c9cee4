package consul

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Names in the metadata of a session that only this package reads. The master
// reads lockapi.MetaKeyDelay and lockapi.MetaKeyBehavior.
const (
	metaTTL    = "consul-ttl"
	metaNode   = "consul-node"
	metaChecks = "consul-checks"
	metaName   = "consul-name" // a name that is too long for a session's own
)

// serfHealth is the only check that a session may name. It never fails.
const serfHealth = "serfHealth"

// Bounds of sessions, as Consul has them. A session ends when it was not renewed
// for twice its TTL.
const (
	minTTL        = 10 * time.Second
	maxTTL        = 24 * time.Hour
	ttlMultiplier = 2
	maxLockDelay  = 60 * time.Second
	maxText       = 4 << 10 // bytes of a name
	// endless is the TTL of a session without one: it ends only by a call.
	endless = 10 * 365 * 24 * time.Hour
)

// span is a duration in JSON: as text, or as a number of nanoseconds. Consul
// takes a number below 1000 as seconds.
type span struct {
	time.Duration
}

// UnmarshalJSON reads either form.
func (s *span) UnmarshalJSON(data []byte) (err error) {
	if string(data) == "null" {
		return nil
	}
	if data[0] != '"' {
		var n float64
		if err = json.Unmarshal(data, &n); err == nil {
			if s.Duration = time.Duration(n); n < 1000 {
				s.Duration = time.Duration(n * float64(time.Second))
			}
		}
		return err
	}
	var text string
	if err = json.Unmarshal(data, &text); err == nil && text != "" {
		s.Duration, err = time.ParseDuration(text)
	}
	return err
}

type newSession struct {
	Name, Node, NodeID, ID   string
	LockDelay                span
	Behavior                 string
	TTL                      string
	Checks, NodeChecks       []string
	ServiceChecks            []any
	Namespace, Partition     string
	CreateIndex, ModifyIndex uint64
}

func parseCreate(r *Request, _ url.Values, c *Call) error {
	in := newSession{LockDelay: span{Duration: 15 * time.Second}, Behavior: lockapi.KeysReleased, NodeChecks: []string{serfHealth}, Checks: []string{serfHealth}}
	if len(bytes.TrimSpace(r.Body)) > 0 {
		d := json.NewDecoder(bytes.NewReader(r.Body))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return lockapi.Invalid("body", "Request decode failed: %v", err)
		}
	}
	if len(in.Checks) == 0 {
		in.NodeChecks = nil
	}
	in.Behavior = cmp.Or(in.Behavior, lockapi.KeysReleased)
	ttl, err := in.check()
	if err != nil {
		return err
	}
	open := &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{Name: lockapi.Clip(in.Name), TTLMS: ttl.Milliseconds(), Meta: map[string]string{
		lockapi.MetaKeyDelay: in.LockDelay.String(), lockapi.MetaKeyBehavior: in.Behavior, metaTTL: in.TTL, metaNode: in.Node}}}
	if len(in.NodeChecks) > 0 {
		open.Meta[metaChecks] = serfHealth
	}
	if open.Name != in.Name { // `consul lock` puts its whole command there
		open.Meta[metaName] = in.Name
	}
	if in.TTL == "" {
		delete(open.Meta, metaTTL)
	}
	same := open.SessionRequest // checked as for any session, except for the TTL
	same.TTLMS = lockapi.MinTTLMS
	if err := same.Validate(); err != nil {
		return err
	}
	c.Run = func(ctx context.Context, o Office) (*Reply, error) {
		if open.Meta[metaNode] == "" {
			open.Meta[metaNode] = o.Node()
		}
		opened, _, err := get[lockapi.Session](ctx, o, open)
		if err != nil {
			return nil, err
		}
		return reply(map[string]string{"ID": opened.ID}, 0)
	}
	return nil
}

// errInvalid refuses a session as Consul does, with 500: Patroni sets its TTL anew
// for such an answer only.
func errInvalid(format string, args ...any) error {
	return lockapi.Errorf(lockapi.CodeInternal, format, args...)
}

func (in *newSession) check() (time.Duration, error) {
	for _, check := range slices.Concat(in.Checks, in.NodeChecks) {
		if check != serfHealth {
			return 0, lockapi.Invalid("Checks", "the session names the check %q; the door has no health checks but %q, which never fails", lockapi.Clip(check), serfHealth)
		}
	}
	switch {
	case len(in.ServiceChecks) > 0:
		return 0, lockapi.Invalid("ServiceChecks", "the session names checks of services, which the door does not have")
	case in.Behavior != lockapi.KeysReleased && in.Behavior != lockapi.KeysDeleted:
		return 0, errInvalid("Invalid Behavior setting '%s'", lockapi.Clip(in.Behavior))
	case in.Namespace != "" && in.Namespace != "default", in.Partition != "" && in.Partition != "default":
		return 0, lockapi.Invalid("Namespace", "there is no namespace or partition but \"default\"")
	case max(len(in.Name), len(in.Node), len(in.TTL)) > maxText:
		return 0, lockapi.Invalid("Name", "the name, the node or the TTL of the session has more than %d bytes", maxText)
	case in.LockDelay.Duration < 0:
		return 0, lockapi.Invalid("LockDelay", "LockDelay is %v; it must not be negative", in.LockDelay.Duration)
	}
	in.LockDelay.Duration = min(in.LockDelay.Duration, maxLockDelay)
	ttl := time.Duration(0)
	if in.TTL != "" {
		var err error
		if ttl, err = time.ParseDuration(in.TTL); err != nil {
			return 0, errInvalid("Session TTL '%s' invalid: %v", lockapi.Clip(in.TTL), err)
		}
	}
	switch {
	case ttl == 0:
		return endless, nil
	case ttl < minTTL || ttl > maxTTL:
		return 0, errInvalid("Invalid Session TTL '%d', must be between [%v=%v]", ttl, minTTL, maxTTL)
	}
	return ttlMultiplier * ttl, nil
}

func ofSession(frees bool, run func(ctx context.Context, o Office, id string) (*Reply, error)) func(*Request, url.Values, *Call) error {
	return func(r *Request, _ url.Values, c *Call) error {
		id, err := r.argument()
		if err == nil && id == "" {
			err = lockapi.Invalid("session", "Missing session")
		}
		c.Frees, c.Repeats = frees, frees
		c.Run = func(ctx context.Context, o Office) (*Reply, error) { return run(ctx, o, id) }
		return err
	}
}

func destroy(ctx context.Context, o Office, id string) (*Reply, error) {
	if _, _, err := o.Do(ctx, &lockapi.EndSession{Session: id}); err != nil {
		return nil, err
	}
	return reply(true, 0)
}

func renew(ctx context.Context, o Office, id string) (*Reply, error) {
	_, _, err := o.Do(ctx, &lockapi.KeepAlive{Session: id})
	var found []entry
	if err == nil {
		found, _, err = sessionOf(ctx, o, id)
	}
	switch {
	case errors.Is(err, lockapi.CodeSessionNotFound), err == nil && len(found) == 0:
		return text(http.StatusNotFound, fmt.Sprintf("Session id '%s' not found", lockapi.Clip(id))), nil
	case err != nil:
		return nil, err
	}
	return reply(found, 0)
}

func info(ctx context.Context, o Office, id string) (*Reply, error) {
	found, index, err := sessionOf(ctx, o, id)
	if err != nil {
		return nil, err
	}
	return reply(found, index)
}

func parseNodeSessions(r *Request, _ url.Values, c *Call) error {
	node, err := r.argument()
	if err == nil && node == "" {
		err = lockapi.Invalid("node", "Missing node name")
	}
	c.Run = listSessions(func(e *entry) bool { return e.Node == node })
	return err
}

func parseSessions(_ *Request, _ url.Values, c *Call) error {
	c.Run = listSessions(func(*entry) bool { return true })
	return nil
}

// entry is a session as Consul shows it.
type entry struct {
	ID, Name, Node           string
	LockDelay                time.Duration
	Behavior, TTL            string
	NodeChecks               []string
	ServiceChecks            []string
	CreateIndex, ModifyIndex uint64
}

func entryOf(s *lockapi.Session, node string) entry {
	delay, _ := time.ParseDuration(cmp.Or(s.Meta[lockapi.MetaKeyDelay], lockapi.DefaultKeyDelay))
	e := entry{ID: s.ID, Name: cmp.Or(s.Meta[metaName], s.Name), Node: cmp.Or(s.Meta[metaNode], node), LockDelay: delay, TTL: s.Meta[metaTTL],
		Behavior: cmp.Or(s.Meta[lockapi.MetaKeyBehavior], lockapi.KeysReleased), NodeChecks: []string{}, CreateIndex: max(s.Revision, 1), ModifyIndex: max(s.Revision, 1)}
	if s.Meta[metaChecks] != "" {
		e.NodeChecks = []string{serfHealth}
	}
	if _, ours := s.Meta[lockapi.MetaKeyBehavior]; !ours { // a session of the API
		e.TTL = (time.Duration(s.TTLMS) * time.Millisecond).String()
	}
	return e
}

func sessionOf(ctx context.Context, o Office, id string) ([]entry, uint64, error) {
	s, index, err := get[lockapi.SessionState](ctx, o, &lockapi.GetSession{Session: id})
	if errors.Is(err, lockapi.CodeSessionNotFound) {
		return []entry{}, index, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return []entry{entryOf(&s.Session, o.Node())}, index, nil
}

func listSessions(wanted func(*entry) bool) runner {
	return func(ctx context.Context, o Office) (*Reply, error) {
		all, index, next := []entry{}, uint64(0), &lockapi.ListSessions{Limit: lockapi.MaxListLimit}
		for {
			page, at, err := get[lockapi.SessionList](ctx, o, next)
			if err != nil {
				return nil, err
			}
			if index == 0 {
				index = at // later pages may be of later revisions
			}
			for i := range page.Sessions {
				if e := entryOf(&page.Sessions[i].Session, o.Node()); wanted(&e) {
					all = append(all, e)
				}
			}
			if page.Next == "" {
				return reply(all, index)
			}
			next = &lockapi.ListSessions{Limit: lockapi.MaxListLimit, After: page.Next}
		}
	}
}
