package doctor

import (
	"crypto/x509"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// Seen is all that was seen.
type Seen struct {
	At      time.Time
	For     time.Duration // for how long clocks were watched
	Version string        // of this program
	Credential
	Servers []*Server // those that were named, then those that members tell of
	Cell    *lockapi.Cell
	Members *lockapi.Members
	// CellErr and MembersErr are why there are none, and NamesErr why nothing that a
	// name of the DNS stands for was called.
	CellErr, MembersErr, NamesErr error
}

// Credential is who we are to the cell.
type Credential struct {
	Token     bool      // one was sent
	TokenEnds time.Time // of a JWT that says so; else zero
	Who       *lockapi.WhoAmI
	WhoErr    error
}

// Server is a URL, and what was found there.
type Server struct {
	URL     string
	Named   bool // by whoever asks; else a member tells of it
	Members []string
	Proxy   string // that the environment has it called through

	CertName  string // that its certificate is judged by; empty for its host's
	asked     string // what the client calls it
	Host      string
	Literal   bool // the host is an address
	Addresses []string
	LookedUp  time.Duration
	LookupErr error
	Dials     []Dial
	TLS       *Handshake // nil where the URL is none of https, or nothing connects

	Err     error         // why it gave no answer
	Took    time.Duration // the fastest of its answers
	CellID  string
	Date    Window // how far its wall clock is ahead of ours
	Dated   bool
	Replica *lockapi.Replica

	Figures    ask.Metrics // nil where there are none
	FiguresErr error
	Later      ask.Metrics // after the time for which it was watched; nil where none were got
	Samples    []Sample
}

// Dial is an attempt to connect to one address.
type Dial struct {
	Address string
	Took    time.Duration
	Err     error
}

// Handshake is one of TLS, which was made to see the certificate, and nothing
// else: it is judged here.
type Handshake struct {
	Version  uint16
	Shown    []*x509.Certificate
	Trusted  []*x509.Certificate // up to the CA; nil where Distrust is why not
	Distrust error
	Err      error // why there was none
}

// Window is where a value lies for certain.
type Window struct{ Low, High time.Duration }

// loopback says whether the way there leaves this machine.
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

// latest are the figures that were read last.
func (s *Server) latest() ask.Metrics {
	if s.Later != nil {
		return s.Later
	}
	return s.Figures
}

// answered are the replicas that told of themselves, each once.
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

// Answers reports whether a replica answers there, even if it refuses.
func (s *Server) Answers() bool { return s.Err == nil || ask.IsDenial(s.Err) }
