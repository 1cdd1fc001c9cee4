package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// Prober examines a cell and the connection to it. It changes nothing.
type Prober struct {
	ask.Poller // has at least one server
	Admin      *admin.Admin
	Cell       func(ctx context.Context, within time.Duration) (lockapi.Cell, error)
	Version    string        // of this program
	Step       time.Duration // time limit of one question
	For        time.Duration // for how long clocks are watched
	Doing      func(string)  // called at each step
}

const (
	rounds = 5  // questions to a server, to find the fastest answer
	looks  = 50 // readings of a clock
)

// Look observes everything. Errors of failed observations are in the result.
func (l *Prober) Look(ctx context.Context) *Seen {
	s := &Seen{At: time.Now(), Version: l.Version}
	if slices.ContainsFunc(l.Servers, ask.IsName) { // the client resolves it
		step, cancel := context.WithTimeout(ctx, l.Step)
		l.Servers, s.NamesErr = l.Admin.URLs(step)
		cancel()
	}
	for i, u := range l.Servers {
		// The address of a DNS name is followed by that name in brackets, which
		// its certificate must have.
		base, name, _ := strings.Cut(strings.TrimRight(u, "/"), " ")
		if l.Servers[i] = base; s.at(base) == nil {
			s.Servers = append(s.Servers, &Server{URL: base, Named: true, CertName: strings.Trim(name, "()")})
		}
	}
	l.Doing("calling the servers")
	ask.Each(s.Servers, func(_ int, at *Server) { l.visit(at).look(ctx) })
	l.askCell(ctx, s)
	if others := s.addMembers(); len(others) > 0 {
		l.Doing("calling the other members")
		ask.Each(others, func(_ int, at *Server) { l.visit(at).look(ctx) })
	}
	l.askWho(ctx, s)
	if all := s.answered(); len(all) > 0 && l.For > 0 {
		s.For = l.For
		l.Doing("watching clocks and mastership for " + took(l.For))
		begun := time.Now()
		ask.Each(all, func(_ int, at *Server) { l.visit(at).watch(ctx, begun) })
	}
	return s
}

func (s *Seen) at(u string) *Server {
	for _, at := range s.Servers {
		if at.URL == strings.TrimRight(u, "/") {
			return at
		}
	}
	return nil
}

// addMembers adds the URLs of the members and returns the new servers.
func (s *Seen) addMembers() (fresh []*Server) {
	if s.Cell == nil {
		return nil
	}
	for _, r := range s.Cell.Replicas {
		if lockapi.ValidateMemberURL(r.URL) != nil || len(s.Servers) > 2*lockapi.MaxMembers {
			continue
		}
		at := s.at(r.URL)
		if at == nil {
			at = &Server{URL: strings.TrimRight(r.URL, "/")}
			s.Servers, fresh = append(s.Servers, at), append(fresh, at)
		}
		if !slices.Contains(at.Members, r.ID) {
			at.Members = append(at.Members, r.ID)
		}
	}
	return fresh
}

func (l *Prober) askCell(ctx context.Context, s *Seen) {
	ctx, cancel := context.WithTimeout(ctx, 2*l.Step)
	defer cancel()
	cell, err := l.Cell(ctx, l.Step)
	if s.CellErr = err; err == nil {
		s.Cell = &cell
	}
	switch {
	case ask.IsDenial(err):
		s.MembersErr = err
	case err != nil || cell.Master == nil:
		s.MembersErr = errors.New("the cell has no master to ask")
	default:
		var members lockapi.Members
		if members, s.MembersErr = l.Admin.Members(ctx); s.MembersErr == nil {
			s.Members = &members
		}
	}
}

func (l *Prober) askWho(ctx context.Context, s *Seen) {
	ctx, cancel := context.WithTimeout(ctx, l.Step)
	defer cancel()
	if l.Token != nil {
		s.Token = true
		if token, err := l.Token(ctx); err == nil {
			s.TokenEnds = endOf(token)
		}
	}
	if (s.Cell == nil || s.Cell.Master == nil) && !ask.IsDenial(s.CellErr) {
		s.WhoErr = cmp.Or(s.CellErr, errors.New("the cell has no master to ask"))
		return
	}
	who, err := l.Admin.Access().WhoAmI(ctx)
	if s.WhoErr = err; err == nil {
		s.Who = &who
	}
}

// endOf returns the end in a JWT, without verifying it; zero for another token
// or a JWT without an end.
func endOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || strings.HasPrefix(token, lockapi.SecretPrefix) {
		return time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp *float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Exp == nil {
		return time.Time{}
	}
	return time.Unix(int64(*claims.Exp), 0)
}

// visit examines one server, step by step, like a call.
type visit struct {
	*Server
	l   *Prober
	ask ask.Poller
	via *http.Transport // with keep-alive, like the SDK
}

func (l *Prober) visit(at *Server) *visit {
	v := &visit{Server: at, l: l, ask: l.Poller, via: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: l.Step, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		TLSClientConfig: l.tls(),
	}}
	if at.CertName != "" {
		v.via.TLSClientConfig.ServerName = cmp.Or(v.via.TLSClientConfig.ServerName, at.CertName)
	}
	v.ask.Via = v.via
	return v
}

func (l *Prober) tls() *tls.Config {
	if l.TLS == nil {
		return new(tls.Config)
	}
	return l.TLS().Clone()
}

func (v *visit) get(ctx context.Context, route string, out any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, v.l.Step)
	defer cancel()
	return v.ask.Get(ctx, v.URL, route, out)
}

func (v *visit) look(ctx context.Context) {
	defer v.via.CloseIdleConnections()
	u, err := url.Parse(v.URL)
	if err != nil {
		v.Err = err
		return
	}
	v.Host = u.Hostname()
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		v.Proxy = proxy.Redacted()
	} else {
		port := cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80")
		if v.lookUp(ctx); v.LookupErr != nil {
			v.Err = v.LookupErr
			return
		}
		if v.connect(ctx, port); !v.connects() {
			v.Err = v.Dials[0].Err
			return
		}
		if u.Scheme == "https" {
			v.shake(ctx, port)
		}
	}
	if v.askItself(ctx); v.Replica != nil {
		_, v.FiguresErr = v.get(ctx, lockapi.RouteMetrics, &v.Figures)
	}
}

func (v *visit) lookUp(ctx context.Context) {
	if ip := net.ParseIP(v.Host); ip != nil {
		v.Literal, v.Addresses = true, []string{v.Host}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, v.l.Step)
	defer cancel()
	begun := time.Now()
	v.Addresses, v.LookupErr = net.DefaultResolver.LookupHost(ctx, v.Host)
	v.LookedUp = time.Since(begun)
}

func (v *visit) connect(ctx context.Context, port string) {
	for _, a := range v.Addresses {
		begun := time.Now()
		c, err := (&net.Dialer{Timeout: min(v.l.Step, 2*time.Second)}).DialContext(ctx, "tcp", net.JoinHostPort(a, port))
		if v.Dials = append(v.Dials, Dial{a, time.Since(begun), innermost(err)}); err == nil {
			_ = c.Close()
		}
	}
}

func innermost(err error) error {
	switch {
	case err == nil:
		return nil
	case ask.IsTimeout(err):
		return ask.ErrNoAnswer
	}
	return ask.Innermost(err)
}

func (s *Server) connects() bool {
	return slices.ContainsFunc(s.Dials, func(d Dial) bool { return d.Err == nil })
}

// shake makes a handshake to see the certificate, and sends nothing else. It
// verifies the certificate afterwards, so an untrusted one is also seen.
func (v *visit) shake(ctx context.Context, port string) {
	h := new(Handshake)
	v.TLS = h
	ctx, cancel := context.WithTimeout(ctx, v.l.Step)
	defer cancel()
	conf, name := v.l.tls(), cmp.Or(v.CertName, v.Host)
	conf.ServerName, conf.InsecureSkipVerify = name, true
	c, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", net.JoinHostPort(v.Host, port))
	if h.Err = innermost(err); err != nil {
		return
	}
	state := c.(*tls.Conn).ConnectionState()
	_ = c.Close()
	h.Version, h.Shown = state.Version, state.PeerCertificates
	between := x509.NewCertPool()
	for _, c := range h.Shown[1:] {
		between.AddCert(c)
	}
	chains, err := h.Shown[0].Verify(x509.VerifyOptions{DNSName: name, Roots: conf.RootCAs, Intermediates: between})
	if h.Distrust = err; err == nil {
		h.Trusted = chains[0]
	}
}

// askItself asks the replica about itself and measures the fastest answer.
func (v *visit) askItself(ctx context.Context) {
	for i := range rounds {
		var r lockapi.Replica
		sent := time.Now()
		header, err := v.get(ctx, lockapi.RouteReplica, &r)
		got := time.Now()
		switch {
		case err != nil && i == 0:
			v.Err = err
			return
		case err != nil:
			return
		case i == 0:
			v.Replica, v.CellID = &r, header.Get(lockapi.HeaderCell)
		}
		if v.Took != 0 && got.Sub(sent) >= v.Took {
			continue
		}
		v.Took = got.Sub(sent)
		// At some instant between the two, the replica's clock was within the
		// second of its Date. Without Round, monotonic clocks would be
		// compared.
		if t, err := http.ParseTime(header.Get("Date")); err == nil {
			v.Date, v.Dated = Interval{t.Sub(got.Round(0)), t.Add(time.Second).Sub(sent.Round(0))}, true
		}
	}
}

// watch samples the replica's clock for some time, and then reads its metrics
// again.
func (v *visit) watch(ctx context.Context, begun time.Time) {
	defer v.via.CloseIdleConnections()
	within, cancel := context.WithTimeout(ctx, v.l.For)
	defer cancel()
	for within.Err() == nil {
		var r lockapi.Replica
		sent := time.Since(begun)
		if _, err := v.get(within, lockapi.RouteReplica, &r); err == nil && r.UptimeMS != nil && r.ID == v.Replica.ID {
			v.Samples = append(v.Samples, Sample{sent, time.Since(begun), *r.UptimeMS})
		}
		_ = ask.Sleep(within, max(v.l.For/looks, 20*time.Millisecond))
	}
	_, _ = v.get(ctx, lockapi.RouteMetrics, &v.Later)
}

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
	away := func(address string) bool { return !isLoopback(address) }
	return len(s.Addresses) > 0 && !slices.ContainsFunc(s.Addresses, away)
}

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
