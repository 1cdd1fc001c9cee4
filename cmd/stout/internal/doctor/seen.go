package doctor

import (
	"crypto/x509"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// Seen has all observations.
type Seen struct {
	At      time.Time
	For     time.Duration // for how long clocks were watched
	Version string        // of this program
	Credential
	Servers []*Server // the named servers, then other members
	Cell    *lockapi.Cell
	Members *lockapi.Members
	// CellErr and MembersErr are the reasons for missing values. NamesErr is
	// the reason why no address of a DNS name was called.
	CellErr, MembersErr, NamesErr error
}

// Credential is our identity at the cell.
type Credential struct {
	Token     bool      // one was sent
	TokenEnds time.Time // for a JWT with an end; else zero
	Who       *lockapi.WhoAmI
	WhoErr    error
}

// Server is a URL with the observations there.
type Server struct {
	URL     string
	Named   bool // named by the caller; else found as a member
	Members []string
	Proxy   string // set by the environment

	CertName  string // the name its certificate must have; empty for the host
	asked     string // its URL in the client
	Host      string
	Literal   bool // the host is an address
	Addresses []string
	LookedUp  time.Duration
	LookupErr error
	Dials     []Dial
	TLS       *Handshake // nil without https or without a connection

	Err     error         // why it gave no answer
	Took    time.Duration // the fastest of its answers
	CellID  string
	Date    Interval // how far its wall clock is ahead of ours
	Dated   bool
	Replica *lockapi.Replica

	Figures    ask.Metrics // nil if missing
	FiguresErr error
	Later      ask.Metrics // read after the watch; nil if that failed
	Samples    []Sample
}

// Dial is an attempt to connect to one address.
type Dial struct {
	Address string
	Took    time.Duration
	Err     error
}

// Handshake is a TLS handshake made only to see the certificate, which is
// verified here.
type Handshake struct {
	Version  uint16
	Shown    []*x509.Certificate
	Trusted  []*x509.Certificate // up to the CA; nil if Distrust is set
	Distrust error
	Err      error // why it failed
}

// Interval is an interval that certainly contains a value.
type Interval struct{ Low, High time.Duration }

// loopback reports whether all addresses belong to this machine.
func (s *Server) loopback() bool {
	if len(s.Addresses) == 0 {
		return false
	}
	for _, a := range s.Addresses {
		if !isLoopback(a) {
			return false
		}
	}
	return true
}

// latest returns the last metrics.
func (s *Server) latest() ask.Metrics {
	if s.Later != nil {
		return s.Later
	}
	return s.Figures
}

// answered returns the replicas that described themselves, each once.
func (s *Seen) answered() []*Server {
	var out []*Server
	seen := map[string]bool{}
	for _, at := range s.Servers {
		if at.Replica != nil && !seen[at.Replica.ID] {
			seen[at.Replica.ID] = true
			out = append(out, at)
		}
	}
	return out
}

// Answers reports whether a replica answers there, even with a refusal.
func (s *Server) Answers() bool { return s.Err == nil || ask.IsDenial(s.Err) }
