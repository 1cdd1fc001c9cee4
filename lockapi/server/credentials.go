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
func forToken(x *exchange, c *lockapi.CreateToken) error {
	o, principal := &x.opts, c.Principal
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
func mayEnable(x *exchange, c *lockapi.EnableAccess) error {
	own, secret := x.opts.EnableSecret, c.Secret
	x.enables = x.asserted.Enables || isLoopback(x.remote()) || own != "" && subtle.ConstantTimeCompare([]byte(own), []byte(secret)) == 1
	if x.enables {
		return nil
	}
	replica := x.master.View().Own.ID
	if x.peer {
		replica = cmp.Or(viaName(x.via()), replica)
	}
	e := lockapi.Errorf(lockapi.CodePermissionDenied, "access is off, and it takes a secret to enable it from an address that is not loopback: "+
		"the one in the file %s in the data directory of replica %s", lockapi.EnableSecretFile, replica)
	e.Permission = lockapi.PermissionOperate
	x.whileOff = e
	return nil
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
	err := x.master.Authorize(&master.Caller{Secret: x.secret, Ask: master.Ask{Right: master.AnyCaller}})
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

// caller returns who makes the call, and what its route asks for. The next call of
// caller writes it anew.
func (x *exchange) caller() *master.Caller {
	by := &x.by
	*by = master.Caller{
		Principal: x.asserted.Principal, How: x.asserted.How, Ends: x.asserted.Ends, Secret: x.secret, RemoteAddr: x.remote(),
		Ask: master.Ask{Right: x.asks, Path: x.node}, Also: x.also,
	}
	if x.how != "" {
		by.Principal, by.How, by.Ends = x.proof.Principal, x.how, x.proof.Ends
	}
	if x.broke {
		by.Principal, by.How, by.Secret = lockapi.PrincipalRoot, lockapi.HowBreakGlass, nil
	}
	x.watch(by)
	by.Timeline, by.WhileOff, by.Turns = x.timeline, x.whileOff, x
	return by
}
