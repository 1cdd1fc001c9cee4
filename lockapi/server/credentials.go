package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/netip"
	"strings"

	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// headerAuthorization has a caller's credential.
const headerAuthorization = "Authorization"

// inRequest is what a route asks for whose handler works it out of the request. A
// handler that does not is one for operators only.
const inRequest = master.Right(255)

// bearing is the SHA-256 of the token that a request brings, nil where it brings
// none. What else proves who calls is in x.proof then: a JWT or, where there is no
// header for a credential, a client's certificate. A wrong credential is never
// passed over.
func (x *exchange) bearing() (*[sha256.Size]byte, error) {
	values := x.c.Request.Header[headerAuthorization]
	if len(values) == 0 {
		return nil, x.showing()
	}
	x.brought = true
	scheme, secret, _ := strings.Cut(values[0], " ")
	switch {
	case len(values) > 1:
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "the header %s is given more than once", headerAuthorization)
	case !strings.EqualFold(scheme, "Bearer"):
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "%s has another scheme than Bearer", headerAuthorization)
	case strings.HasPrefix(secret, lockapi.SecretPrefix):
		sum := sha256.Sum256([]byte(secret))
		return &sum, nil
	case x.opts.JWTs == nil:
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "the credential is not a token of a cell, which begins with %q, and this replica takes no JWTs", lockapi.SecretPrefix)
	}
	proof, err := x.opts.JWTs.Prove(secret)
	if err != nil {
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "the credential is not a token of a cell, which begins with %q, and is refused as a JWT: %v", lockapi.SecretPrefix, err)
	}
	x.proof, x.how = *proof, lockapi.HowJWT
	return nil, nil
}

// showing looks at the certificate that the caller has shown, if he has. Between
// members a certificate is a replica's.
func (x *exchange) showing() error {
	if x.peer || !x.opts.Certificates {
		return nil
	}
	proof, err := identity.OfCertificate(x.c.Request.TLS, x.opts.CertificatePrefix)
	switch {
	case err != nil:
		x.brought = true
		x.c.Writer.Header().Set("Connection", "close") // another one needs another handshake
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the client's certificate proves nothing: %v", err)
	case proof != nil:
		x.brought = true
		x.proof, x.how = *proof, lockapi.HowCertificate
	}
	return nil
}

// prefixOf is what the names of a source's principals begin with.
func (o *Options) prefixOf(how string) string {
	switch {
	case how == lockapi.HowCertificate:
		return o.CertificatePrefix
	case how == lockapi.HowJWT && o.JWTs != nil:
		return o.JWTs.Prefix
	}
	return ""
}

// forToken refuses to make a token for a principal that another source may prove.
func (o *Options) forToken(principal string) error {
	for _, s := range []struct{ how, whose, setting string }{{lockapi.HowJWT, "JWTs", "jwt-prefix"}, {lockapi.HowCertificate, "certificates", "certificate-prefix"}} {
		prefix := o.prefixOf(s.how)
		if prefix != "" && strings.HasPrefix(principal, lockapi.PrefixUser+prefix) {
			return lockapi.Invalid("principal", "%q is a name of %s: those begin with %q (%s), and a token's does not", lockapi.Clip(principal), s.whose, prefix, s.setting)
		}
	}
	return nil
}

// mayEnable has the call refused while access is off, unless it came to the first
// replica by loopback, or brings the secret in the data directory of that replica or
// of this one.
func (x *exchange) mayEnable(by *master.Caller, secret string) {
	own := x.opts.EnableSecret
	x.enables = x.claim.Enables || isLoopback(x.remote()) || own != "" && subtle.ConstantTimeCompare([]byte(own), []byte(secret)) == 1
	if x.enables {
		return
	}
	replica := x.master.Replica().ID
	if x.peer {
		replica = cmp.Or(viaName(x.via()), replica)
	}
	e := lockapi.Errorf(lockapi.CodePermissionDenied, "access is off, and it takes a secret to enable it from an address that is not loopback: "+
		"the one in the file %s in the data directory of replica %s", lockapi.EnableSecretFile, replica)
	e.Permission = lockapi.PermissionOperate
	by.WhileOff = e
}

// isLoopback reports whether an address and port is of this host alone.
func isLoopback(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// breakGlass takes the secret behind the glass for the root's, in a call that this
// replica, being master, was sent by its caller. Elsewhere it is no token.
func (x *exchange) breakGlass(r *route) {
	secret := x.opts.BreakGlass
	if secret == nil || x.peer || subtle.ConstantTimeCompare(secret[:], x.secret[:]) != 1 {
		return
	}
	if !x.master.Known().Self {
		x.misplaced = true
		return
	}
	x.broke = true
	x.log.Warn().Str("route", r.method+" "+r.template).Str("remote", x.c.Request.RemoteAddr).
		Msg("break-glass: a call was made as user:root by the secret on this replica's host")
}

// keepGlass refuses to hand the secret behind the glass on where it would travel for
// everybody to read, unless it is, as far as is known here, a token as well.
func (x *exchange) keepGlass() error {
	if x.proven || !x.broke && !x.misplaced {
		return nil
	}
	err := x.master.Judge(&master.Caller{Secret: x.secret, Ask: master.Ask{Right: master.Anybody}})
	if err != nil {
		x.broke, x.misplaced = false, true
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "it is no token here: %v", err) // fail says more
	}
	return nil
}

// errMisplaced refuses the secret behind the glass at a replica that is not master.
func errMisplaced(at Location) *lockapi.Error {
	where := "no master is known now"
	if at.ID != "" {
		where = fmt.Sprintf("that is %s at %s now", at.ID, at.URL)
	}
	return lockapi.Errorf(lockapi.CodeUnauthenticated, "the secret of break-glass-token-file counts in calls to the master itself only, where that has the same file: %s", where)
}

// caller is who makes the call, and what its route asks for.
func (x *exchange) caller() master.Caller {
	by := master.Caller{
		Principal: x.claim.Principal, How: x.claim.How, Ends: x.claim.Ends, Secret: x.secret, RemoteAddr: x.remote(),
		Ask: master.Ask{Right: x.asks, Path: x.node}, Also: x.also,
	}
	if x.how != "" {
		by.Principal, by.How, by.Ends = x.proof.Principal, x.how, x.proof.Ends
	}
	if x.broke {
		by.Principal, by.How, by.Secret = lockapi.PrincipalRoot, lockapi.HowBreakGlass, nil
	}
	x.watch(&by)
	by.Timeline = x.timeline
	return by
}

// callerFor is the caller of a call that is made on behalf of a session, which has
// to be his own; empty for none.
func (x *exchange) callerFor(session string) master.Caller {
	by := x.caller()
	by.For = own(session)
	return by
}

func own(session string) master.Ask {
	return master.Ask{Right: master.Nobody, Session: session, Uses: true}
}

// callerAbout is the caller of a call that is about a session: where it is another
// principal's, it takes what the route asks for.
func (x *exchange) callerAbout(session string, uses bool) master.Caller {
	by := x.caller()
	by.Ask.Session, by.Ask.Uses = session, uses
	return by
}

// guarded adds what it takes to be told whether grants are held.
func guarded(by master.Caller, sequencers []lockapi.Sequencer) master.Caller {
	for _, q := range sequencers {
		by.Also = append(by.Also, master.Ask{Right: master.ReadAt, Path: q.Path})
	}
	return by
}

// transacting is the caller of a transaction, which asks for all that its parts do.
func (x *exchange) transacting(t *lockapi.Transaction) master.Caller {
	by := x.callerFor(t.Session)
	by.Ask.Right = master.Known // a transaction without any part, and releases
	if t.Session == "" {
		by.Ask.Right = master.Somebody
	}
	ask := func(right master.Right, path string) {
		by.Also = append(by.Also, master.Ask{Right: right, Path: path})
	}
	for _, c := range t.If {
		switch {
		case c.File != "":
			ask(master.ReadAt, c.File)
		case c.Lock != "":
			ask(master.ReadAt, c.Lock)
		case c.Session != "":
			by.Also = append(by.Also, master.Ask{Right: master.Observe, Session: c.Session})
		default:
			q, _ := lockapi.ParseSequencer(c.Sequencer) // it is valid
			ask(master.ReadAt, q.Path)
		}
	}
	for _, branch := range [][]lockapi.Operation{t.Then, t.Else} {
		for i := range branch {
			askOf(&branch[i], ask)
		}
	}
	if len(by.Also) == 0 {
		by.Ask.Right = master.Known
	}
	return by
}

// askOf is what an operation asks for; nothing for a release of one's own.
func askOf(o *lockapi.Operation, ask func(master.Right, string)) {
	switch {
	case o.Put != nil:
		ask(master.WriteAt, o.Put.Path)
	case o.Create != nil:
		ask(master.WriteAt, o.Create.Path)
	case o.CreateSequential != nil:
		ask(master.NameAt, sequential(o.CreateSequential.Path))
	case o.Delete != nil:
		ask(master.WriteAt, o.Delete.Path)
	case o.Get != nil:
		ask(master.ReadAt, o.Get.Path)
	case o.Acquire != nil:
		ask(master.LockAt, o.Acquire.Path)
	case o.Release == nil:
		ask(master.Undecided, "")
	}
}

// sequential is a name that a sequential file may get: a rule for it stands above.
func sequential(prefix string) string {
	return prefix + strings.Repeat("0", lockapi.SequentialDigits)
}
