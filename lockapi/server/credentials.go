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

const headerAuthorization = "Authorization"

// bearing returns the SHA-256 of the request's token, or nil without a token.
// x.proof then has any other proof of the caller: a JWT or, without an
// Authorization header, a client certificate. A bad credential is never
// ignored.
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
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "%s does not have the scheme Bearer", headerAuthorization)
	case strings.HasPrefix(secret, lockapi.SecretPrefix):
		sum := sha256.Sum256([]byte(secret))
		return &sum, nil
	case x.opts.JWTs == nil:
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "the credential does not begin with %q, as tokens of a cell do, and this replica does not accept JWTs", lockapi.SecretPrefix)
	}
	proof, err := x.opts.JWTs.Prove(secret)
	if err != nil {
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "the credential does not begin with %q, as tokens of a cell do, and is not a valid JWT: %v", lockapi.SecretPrefix, err)
	}
	x.proof, x.how = *proof, lockapi.HowJWT
	return nil, nil
}

// showing reads the caller's certificate, if there is one. Between members the
// certificate belongs to a replica.
func (x *exchange) showing() error {
	if x.peer || !x.opts.Certificates {
		return nil
	}
	proof, err := identity.OfCertificate(x.c.Request.TLS, x.opts.CertificatePrefix)
	switch {
	case err != nil:
		x.brought = true
		x.c.Writer.Header().Set("Connection", "close") // another certificate needs another handshake
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the client certificate does not identify a user: %v", err)
	case proof != nil:
		x.brought = true
		x.proof, x.how = *proof, lockapi.HowCertificate
	}
	return nil
}

// prefixOf returns the prefix of the principals from a source.
func (o *Options) prefixOf(how string) string {
	switch {
	case how == lockapi.HowCertificate:
		return o.CertificatePrefix
	case how == lockapi.HowJWT && o.JWTs != nil:
		return o.JWTs.Prefix
	}
	return ""
}

// forToken refuses to create a token for a principal that another source may
// prove.
func forToken(x *exchange, c *lockapi.CreateToken) error {
	o, principal := &x.opts, c.Principal
	for _, s := range []struct{ how, whose, setting string }{{lockapi.HowJWT, "JWTs", "jwt-prefix"}, {lockapi.HowCertificate, "certificates", "certificate-prefix"}} {
		prefix := o.prefixOf(s.how)
		if prefix != "" && strings.HasPrefix(principal, lockapi.PrefixUser+prefix) {
			return lockapi.Invalid("principal", "%q is reserved for %s, because it begins with %q (%s); choose a name without that prefix for a token", lockapi.Clip(principal), s.whose, prefix, s.setting)
		}
	}
	return nil
}

// mayEnable makes the call fail while access control is off, except in two
// cases: the call reached the first replica by loopback, or it carries the
// secret in the data directory of that replica or of this one.
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
	e := lockapi.Errorf(lockapi.CodePermissionDenied, "to enable access control from an address other than loopback, send the secret "+
		"in the file %s in the data directory of replica %s", lockapi.EnableSecretFile, replica)
	e.Permission = lockapi.PermissionOperate
	x.whileOff = e
	return nil
}

func isLoopback(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// breakGlass accepts the break-glass secret as the root's, if the caller sent
// the call to this replica and it is the master. Elsewhere the secret is not a
// valid token.
func (x *exchange) breakGlass() {
	secret := x.opts.BreakGlass
	if secret == nil || x.peer || subtle.ConstantTimeCompare(secret[:], x.secret[:]) != 1 {
		return
	}
	if !x.master.Known().Self {
		x.misplaced = true
		return
	}
	x.broke = true
	x.log.Warn().Str("route", x.route.method+" "+x.route.template).Str("remote", x.c.Request.RemoteAddr).
		Msg("break-glass: a call as user:root used the secret on this replica's host")
}

// keepGlass refuses to forward the break-glass secret unencrypted, unless this
// replica also knows it as a token.
func (x *exchange) keepGlass() error {
	if x.proven || !x.broke && !x.misplaced {
		return nil
	}
	err := x.master.Authorize(&master.Caller{Secret: x.secret, Ask: master.Ask{Right: master.AnyCaller}})
	if err != nil {
		x.broke, x.misplaced = false, true
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the secret is not a token here: %v", err) // fail adds the details
	}
	return nil
}

// errMisplaced refuses the break-glass secret at a replica that is not the
// master.
func errMisplaced(at Location) *lockapi.Error {
	where := "no master is known at present"
	if at.ID != "" {
		where = fmt.Sprintf("the master is %s at %s", at.ID, at.URL)
	}
	return lockapi.Errorf(lockapi.CodeUnauthenticated, "the secret of break-glass-token-file is valid only in calls sent directly to the master, if it has the same file: %s", where)
}

// caller returns the caller and what the route requires. The next call of
// caller overwrites the result.
func (x *exchange) caller() *master.Caller {
	by := &x.by
	*by = master.Caller{
		Principal: x.asserted.Principal, How: x.asserted.How, Ends: x.asserted.Ends, Secret: x.secret, RemoteAddr: x.remote(),
		Ask: master.Ask{Right: x.route.asks, Path: x.node}, Also: x.also,
	}
	if x.how != "" {
		by.Principal, by.How, by.Ends = x.proof.Principal, x.how, x.proof.Ends
	}
	if x.broke {
		by.Principal, by.How, by.Secret = lockapi.PrincipalRoot, lockapi.HowBreakGlass, nil
	}
	x.watch(by)
	by.Timeline, by.WhileOff, by.Turns, by.Parking = x.timeline, x.whileOff, x, x.parking
	return by
}
