package simcell

import (
	"cmp"
	"encoding/hex"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
	"github.com/stoutlock/stout/test/model"
)

// rights are who may do what after an entry, as the model has it. They are
// immutable.
type rights struct {
	*model.Access
	sessions []*state.Session // that live
}

func rightsOf(m *model.Model) *rights { return &rights{m.Access, m.Sessions} }

func (r *rights) same(o *rights) bool {
	return r.Access == o.Access && len(r.sessions) == len(o.sessions) && (len(r.sessions) == 0 || &r.sessions[0] == &o.sessions[0])
}

// owner returns the principal of a session, and whether the session lives.
func (r *rights) owner(session string) (principal string, lives bool) {
	for _, s := range r.sessions {
		if s.ID == session {
			return s.Principal, true
		}
	}
	return "", false
}

// token returns the token whose secret has a sum, in hexadecimal, or nil.
func (r *rights) token(sum string) *state.Token {
	raw, err := hex.DecodeString(sum)
	if err != nil {
		return nil
	}
	return r.Token(raw)
}

// need is a permission at a path.
type need struct {
	permission access.Permission
	path       string
}

// plea is one call, and what its caller has to have for it.
type plea struct {
	who     string
	sum     string // of the token that it brings; empty without one
	floor   uint64 // it came when the effect of that entry had been told
	began   int64  // wall clock, nanoseconds
	needs   []need
	known   bool   // only somebody known may make it
	session string // on whose behalf it is made; it has to be the caller's own
	lists   string // the prefix of what it lists or watches: a caller without a name needs read there
	looks   bool   // it lists or watches
}

// answer is what the call has to be told by those rights, if that is decided at
// a time: nothing, unauthenticated or permission_denied.
func (r *rights) answer(p *plea, at int64) lockapi.Code {
	who, genuine := r.principal(p.sum, at)
	if !genuine {
		return lockapi.CodeUnauthenticated
	}
	if !r.On {
		return ""
	}
	owner, lives := r.owner(p.session)
	fine := (who != "" || !p.known && p.session == "") && (!lives || owner == "" || owner == who)
	if p.looks && who == "" {
		fine = fine && r.May(who, access.Read, cmp.Or(strings.TrimSuffix(p.lists, "/"), "/"))
	}
	for _, n := range p.needs {
		fine = fine && r.May(who, n.permission, n.path)
	}
	switch {
	case fine:
		return ""
	case who == "":
		return lockapi.CodeUnauthenticated
	}
	return lockapi.CodePermissionDenied
}

// principal is whose token has that sum at a time; false where it is nobody's.
func (r *rights) principal(sum string, at int64) (who string, genuine bool) {
	if sum == "" {
		return "", true
	}
	t := r.token(sum)
	if t == nil || t.ExpiresAt != 0 && at >= t.ExpiresAt {
		return "", false
	}
	return t.Principal, true
}
