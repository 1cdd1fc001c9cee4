package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// A replica that forwards a call describes the caller in one header. The
// connection, never the header, decides how much of that the master accepts:
//
//   - Between replicas that have shown each other their certificates, the master
//     accepts the principal that the replica has verified by a certificate or a
//     JWT. No credential travels. A token travels as its hash, and the master looks
//     up its principal: the replica's own state may be behind, and could accept a
//     revoked token or refuse a new one.
//   - Without TLS any sender that reaches the port could send this header. The
//     credential itself travels, and the master verifies it. Its hash would not
//     do: that is in the log, in snapshots and in backups, and would be as good
//     as the secret.
//
// In both cases the sender must be a member according to the master, which has
// the latest configuration. The certificate of a removed replica still proves
// its name, and nothing else.
//
// In both cases the header also carries the caller's address, and whether the
// caller may enable access control while it is off. The master accepts both
// from any member; they have no other effect. On the API's port this header is
// ignored.
const headerCaller = "Stout-Caller"

// assertion is a replica's statement about the caller of a forwarded call.
type assertion struct {
	Principal string    `json:"principal,omitempty"` // verified principal; empty for an anonymous caller
	How       string    `json:"how,omitempty"`       // certificate or jwt
	Ends      time.Time `json:"ends,omitzero"`       // when the proof expires; zero for never
	Token     string    `json:"token,omitempty"`     // SHA-256 of the caller's token, in hexadecimal
	Remote    string    `json:"remote,omitempty"`    // the caller's address and port
	Enables   bool      `json:"enables,omitempty"`   // the caller may enable access control while it is off
}

// noAssertion belongs to a call that no member has forwarded. It is never
// modified.
var noAssertion = new(assertion)

func (x *exchange) assertion() assertion {
	c := assertion{Remote: x.remote(), Enables: x.enables}
	switch by := x.caller(); {
	case !x.proven: // the credential itself travels
	case x.secret != nil: // also for the break-glass secret, which is valid only here
		c.Token = hex.EncodeToString(x.secret[:])
	default:
		c.Principal, c.How, c.Ends = by.Principal, by.How, by.Ends
	}
	return c
}

// assert adds the header that describes the caller to a forwarded call.
func (x *exchange) assert(out http.Header) error {
	if values := x.c.Request.Header[headerAuthorization]; !x.proven && len(values) > 0 {
		out[headerAuthorization] = values
	}
	text, err := json.Marshal(x.assertion())
	if err != nil {
		return err
	}
	out[headerCaller] = []string{string(text)}
	return nil
}

// credential reads the request's credential. It returns the hash of a token, or
// nil without one. For a forwarded call it also sets x.asserted.
func (x *exchange) credential() (*[sha256.Size]byte, error) {
	if !x.peer {
		return x.bearing()
	}
	x.asserted = new(assertion)
	values := x.c.Request.Header[headerCaller]
	if len(values) > 0 || len(x.c.Request.Header[headerAuthorization]) > 0 {
		if err := x.vouched(); err != nil {
			return nil, err
		}
	}
	if len(values) > 1 {
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "the forwarding replica sent more than one description of its caller")
	}
	if len(values) == 1 {
		if err := json.Unmarshal([]byte(values[0]), x.asserted); err != nil {
			return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "the forwarding replica's description of its caller is malformed: %v", err)
		}
	}
	if _, err := netip.ParseAddrPort(x.asserted.Remote); err != nil {
		x.asserted.Remote = ""
	}
	if x.proven {
		return x.asserted.believed(&x.opts)
	}
	if *x.asserted != (assertion{Remote: x.asserted.Remote, Enables: x.asserted.Enables}) {
		x.asserted = noAssertion
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "the forwarding replica vouches for its caller, which needs TLS between replicas; set raft-cert, raft-key and raft-ca on all of them")
	}
	return x.bearing()
}

// believed checks the assertion of an authenticated replica and returns the
// hash of the token, if any. An assertion cannot name the root, which needs a
// token. It is also refused if the replicas have different prefixes for the
// source.
func (c *assertion) believed(here *Options) (*[sha256.Size]byte, error) {
	why := "which is not valid"
	switch nobody := c.Principal == "" && c.How == "" && c.Ends.IsZero(); {
	case c.Token != "":
		sum, err := hex.DecodeString(c.Token)
		if err != nil || len(sum) != sha256.Size || !nobody {
			break
		}
		return (*[sha256.Size]byte)(sum), nil
	case nobody:
		return nil, nil
	case c.How != lockapi.HowCertificate && c.How != lockapi.HowJWT,
		c.Principal == lockapi.PrincipalRoot, c.Principal == lockapi.PrincipalAnonymous:
	case !strings.HasPrefix(c.Principal, lockapi.PrefixUser+here.prefixOf(c.How)):
		why = fmt.Sprintf("but here such names begin with %q; set the same jwt-prefix and certificate-prefix on all replicas", here.prefixOf(c.How))
	case lockapi.ValidatePrincipal(c.Principal) == nil:
		return nil, nil
	}
	refused := lockapi.Errorf(lockapi.CodeUnauthenticated, "the forwarding replica identified its caller as %q by %q, %s", lockapi.Clip(c.Principal), lockapi.Clip(c.How), why)
	*c = assertion{Remote: c.Remote}
	return nil, refused
}

// remote returns the caller's address and port, also for a forwarded call;
// empty if unknown.
func (x *exchange) remote() string {
	if x.peer {
		return x.asserted.Remote
	}
	return x.c.Request.RemoteAddr
}
