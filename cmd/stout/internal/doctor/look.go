package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Looker looks at a cell and at the way to it. It changes nothing.
type Looker struct {
	Client  *client.Client
	Servers []string                              // base URLs and names of the DNS, at least one
	TLS     func() *tls.Config                    // how https is called; nil for the system's CAs
	Token   func(context.Context) (string, error) // nil for none
	Version string                                // of this program
	Step    time.Duration                         // how long one question may take
	For     time.Duration                         // for how long clocks are watched
	Doing   func(string)                          // told of what goes on
}

// Look looks at everything. What could not be seen is an error in what it
// returns.
func (l *Looker) Look(ctx context.Context) *Seen {
	s := &Seen{At: time.Now(), Version: l.Version}
	for _, u := range l.named(ctx, s) {
		if s.at(u) == nil {
			s.Servers = append(s.Servers, newServer(u))
		}
	}
	l.Doing("calling the servers")
	l.visitAll(ctx, s, s.Servers)
	l.askCell(ctx, s)
	if known := s.tellOfMembers(); len(known) > 0 {
		l.Doing("calling the other members")
		l.visitAll(ctx, s, known)
	}
	l.askWho(ctx, s)
	l.watch(ctx, s)
	return s
}

// named are the base URLs that were named, those that a name of the DNS stands for
// as the client has them.
func (l *Looker) named(ctx context.Context, s *Seen) (urls []string) {
	if !slices.ContainsFunc(l.Servers, isName) {
		return l.Servers
	}
	ctx, cancel := context.WithTimeout(ctx, l.Step)
	defer cancel()
	urls, s.NamesErr = l.Client.URLs(ctx)
	return urls
}

func isName(u string) bool { return strings.HasPrefix(u, "dns:") || strings.HasPrefix(u, "dns+") }

// newServer is one that was named. Behind the URL of one that a name stands for is,
// in brackets, the name that its certificate is judged by.
func newServer(u string) *Server {
	base, name, _ := strings.Cut(strings.TrimRight(u, "/"), " ")
	return &Server{URL: base, Named: true, CertName: strings.Trim(name, "()"), asked: u}
}

// at is the server of a URL, or nil.
func (s *Seen) at(u string) *Server {
	for _, at := range s.Servers {
		if at.URL == strings.TrimRight(u, "/") {
			return at
		}
	}
	return nil
}

// tellOfMembers notes what URLs the members tell, and returns the new ones.
func (s *Seen) tellOfMembers() (fresh []*Server) {
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

func (l *Looker) visitAll(ctx context.Context, s *Seen, servers []*Server) {
	var all sync.WaitGroup
	for _, at := range servers {
		all.Go(func() {
			v := l.visit(s, at)
			defer v.transport.CloseIdleConnections()
			v.make(ctx)
		})
	}
	all.Wait()
}

// visit is one to a server. Where somebody called the cell by https, a token does
// not go to a URL of http that a member told: as with the SDK.
func (l *Looker) visit(s *Seen, at *Server) *visit {
	secret := slices.ContainsFunc(s.Servers, func(at *Server) bool { return at.Named && isSecure(at.URL) })
	return &visit{l, at, l.transport(at.CertName), at.Named || isSecure(at.URL) || !secret}
}

func isSecure(u string) bool { return strings.HasPrefix(u, "https://") }

// askCell asks the replicas that answer for the state of the cell, and takes the
// view that shows a master in office, else the newest. Where they only refuse to
// tell, that refusal is why there is none.
func (l *Looker) askCell(ctx context.Context, s *Seen) {
	var mu sync.Mutex
	var all sync.WaitGroup
	s.CellErr = errors.New("no server answers")
	for _, at := range s.Servers {
		if !at.Answers() {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, l.Step)
			defer cancel()
			view, err := l.Client.CellAt(ctx, at.asked)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && s.Cell == nil && !isDenial(s.CellErr):
				s.CellErr = err
			case err != nil:
			case s.Cell == nil || better(&view, s.Cell):
				s.Cell, s.CellErr = &view, nil
			}
		})
	}
	all.Wait()
	if s.Cell == nil || s.Cell.Master == nil {
		s.MembersErr = errors.New("there is no master that could tell")
		if isDenial(s.CellErr) {
			s.MembersErr = s.CellErr
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.Step)
	defer cancel()
	members, err := l.Client.Members(ctx)
	if s.MembersErr = err; err == nil {
		s.Members = &members
	}
}

func better(view, than *lockapi.Cell) bool {
	held, other := view.Master != nil && view.Lease.Held, than.Master != nil && than.Lease.Held
	return held && !other || held == other && view.Epoch > than.Epoch
}

func (l *Looker) askWho(ctx context.Context, s *Seen) {
	ctx, cancel := context.WithTimeout(ctx, l.Step)
	defer cancel()
	if l.Token != nil {
		s.Token = true
		if token, err := l.Token(ctx); err == nil {
			s.TokenEnds = endOf(token)
		}
	}
	if (s.Cell == nil || s.Cell.Master == nil) && !isDenial(s.CellErr) {
		s.WhoErr = errors.New("there is no master to ask")
		if s.Cell == nil {
			s.WhoErr = s.CellErr
		}
		return
	}
	who, err := l.Client.Access().WhoAmI(ctx)
	if s.WhoErr = err; err == nil {
		s.Who = &who
	}
}

// endOf is when a JWT says that it ends; zero for what is none, or has no end. It
// is not judged here.
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

// watch takes samples of the replicas' clocks for some time, and looks at their
// metrics once more.
func (l *Looker) watch(ctx context.Context, s *Seen) {
	all := s.answered()
	if len(all) == 0 || l.For <= 0 {
		return
	}
	s.For = l.For
	l.Doing("watching clocks and mastership for " + took(l.For))
	begun := time.Now()
	var done sync.WaitGroup
	for _, at := range all {
		done.Go(func() {
			v := l.visit(s, at)
			defer v.transport.CloseIdleConnections()
			v.sample(ctx, begun)
			_, _ = v.get(ctx, lockapi.RouteMetrics, &at.Later)
		})
	}
	done.Wait()
}

// sample looks at a replica's clock again and again.
func (v *visit) sample(ctx context.Context, begun time.Time) {
	ctx, cancel := context.WithTimeout(ctx, v.l.For)
	defer cancel()
	tick := time.NewTicker(max(v.l.For/looks, 20*time.Millisecond))
	defer tick.Stop()
	for ctx.Err() == nil {
		var r lockapi.Replica
		sent := time.Since(begun)
		_, err := v.get(ctx, lockapi.RouteReplica, &r)
		if err == nil && r.UptimeMS != nil && r.ID == v.at.Replica.ID {
			v.at.Samples = append(v.at.Samples, Sample{sent, time.Since(begun), *r.UptimeMS})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// looks is how often a clock is looked at.
const looks = 50

// transport is that of one server's questions, which are made as the SDK makes
// them: its certificate is judged by a name, if there is one.
func (l *Looker) transport(name string) *http.Transport {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: l.Step, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	if l.TLS != nil {
		t.TLSClientConfig = l.TLS().Clone()
	}
	if name != "" {
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = new(tls.Config)
		}
		t.TLSClientConfig.ServerName = cmp.Or(t.TLSClientConfig.ServerName, name)
	}
	return t
}

func proxyOf(u *url.URL) string {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.Redacted()
}

func isDenial(err error) bool {
	return errors.Is(err, lockapi.CodePermissionDenied) || isUnauthenticated(err)
}

// codeOf is the code of a refusal, without its words.
func codeOf(err error) lockapi.Code {
	code, _ := errors.AsType[*lockapi.Error](err)
	return code.Code
}

// Answers says whether a replica answers there, be it with a refusal.
func (s *Server) Answers() bool { return s.Err == nil || isDenial(s.Err) }

func isUnauthenticated(err error) bool { return errors.Is(err, lockapi.CodeUnauthenticated) }
