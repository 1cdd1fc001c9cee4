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

// rights are the rights after an entry, from the model. They are immutable.
type rights struct {
	*model.Access
	sessions []*state.Session // live ones
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

// token returns the token with a secret of that checksum in hexadecimal, or
// nil.
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

// guestCall is one call and what its caller needs for it.
type guestCall struct {
	who     string
	sum     string // checksum of its token; empty without one
	floor   uint64 // latest reported entry when it began
	began   int64  // wall clock, nanoseconds
	needs   []need
	known   bool   // anonymous callers may not make it
	session string // that it is for; it must belong to the caller
	lists   string // the prefix that it lists or watches: an anonymous caller needs the right to read there
	looks   bool   // it lists or watches
}

// answer returns the error that the call must get if these rights decide at a
// time: "", unauthenticated or permission_denied.
func (r *rights) answer(p *guestCall, at int64) lockapi.Code {
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

// principal returns the owner of the token with that checksum at a time; false
// if there is no such token.
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
