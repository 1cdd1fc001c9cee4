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

// A replica that forwards a call says for whom it does, in one header. How much
// of that the master believes depends on the connection, never on the header:
//
//   - Between replicas that have shown each other their certificates, it is the
//     principal that the replica made sure of, by a certificate or a JWT. No
//     credential travels. A token is told by its hash, and the master looks for
//     whose it is: the replica's own state may be behind, and would take a token
//     that was revoked, or refuse one that was just made.
//   - Without TLS anybody who reaches the port could say all that. The credential
//     itself travels and the master judges it. Not its hash: that is in the log,
//     in snapshots and in backups, and would be as good as the secret then.
//
// In both cases the replica has to be a member, as far as the master knows: the
// master's own configuration is the latest. The certificate of a replica that was
// removed proves its name still, and nothing else.
//
// The address of the caller goes along in both cases, and whether it may enable access
// while that is off: both are believed of any member. Nothing else is decided by them.
// Whatever comes by the API's port has this header looked at by nobody.
const headerCaller = "Stout-Caller"

// assertion is what a replica says of the caller for whom it forwards.
type assertion struct {
	Principal string    `json:"principal,omitempty"` // that it made sure of; empty for nobody known
	How       string    `json:"how,omitempty"`       // certificate or jwt
	Ends      time.Time `json:"ends,omitzero"`       // when that counts no more; zero for never
	Token     string    `json:"token,omitempty"`     // SHA-256 of the token that the caller brings, in hex
	Remote    string    `json:"remote,omitempty"`    // the caller's address and port
	Enables   bool      `json:"enables,omitempty"`   // it may enable access while that is off
}

// noAssertion is the claim of a call that no member has forwarded. It is not changed.
var noAssertion = new(assertion)

// assert puts what the next replica is to know of the caller into the headers of a
// call that is forwarded.
func (x *exchange) assert(out http.Header) error {
	c := assertion{Remote: x.remote(), Enables: x.enables}
	switch by := x.caller(); {
	case !x.proven:
		if values := x.c.Request.Header[headerAuthorization]; len(values) > 0 {
			out[headerAuthorization] = values
		}
	case x.secret != nil: // also of the secret behind the glass: it is the root's here only
		c.Token = hex.EncodeToString(x.secret[:])
	default:
		c.Principal, c.How, c.Ends = by.Principal, by.How, by.Ends
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	out[headerCaller] = []string{string(text)}
	return nil
}

// credential finds what a request brings to be judged by: the hash of a token,
// nil without one. For a call that was forwarded, x.asserted is set besides.
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
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "a replica tells of its caller more than once")
	}
	if len(values) == 1 {
		if err := json.Unmarshal([]byte(values[0]), x.asserted); err != nil {
			return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "what a replica tells of its caller is malformed: %v", err)
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
		return nil, lockapi.Errorf(lockapi.CodeUnauthenticated, "a replica says who its caller is, and without TLS between replicas that counts for nothing; give raft-cert, raft-key and raft-ca on all of them")
	}
	return x.bearing()
}

// believed is the token of a claim that a replica has made for certain. Nobody
// can be made the root so: that takes a token. Nor does it count where the replica has
// given the source another prefix than this one.
func (c *assertion) believed(here *Options) (*[sha256.Size]byte, error) {
	why := "which cannot be"
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
		why = fmt.Sprintf("and here those names begin with %q: give all replicas the same jwt-prefix and certificate-prefix", here.prefixOf(c.How))
	case lockapi.ValidatePrincipal(c.Principal) == nil:
		return nil, nil
	}
	refused := lockapi.Errorf(lockapi.CodeUnauthenticated, "a replica says that its caller is %q, known by %q, %s", lockapi.Clip(c.Principal), lockapi.Clip(c.How), why)
	*c = assertion{Remote: c.Remote}
	return nil, refused
}

// remote is the address and port from which the caller called, also where
// another replica has forwarded the call; empty where that is not known.
func (x *exchange) remote() string {
	if x.peer {
		return x.asserted.Remote
	}
	return x.c.Request.RemoteAddr
}
