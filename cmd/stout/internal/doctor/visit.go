package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// visit looks at one server, step by step, as a call goes there.
type visit struct {
	l         *Looker
	at        *Server
	transport *http.Transport
	known     bool // the server may be shown the token
}

// rounds is how often a server is asked, to find the fastest answer.
const rounds = 5

func (v *visit) make(ctx context.Context) {
	at := v.at
	u, err := url.Parse(at.URL)
	if err != nil {
		at.Err = err
		return
	}
	at.Host, at.Proxy = u.Hostname(), proxyOf(u)
	if at.Proxy == "" {
		if v.lookUp(ctx); at.LookupErr != nil {
			at.Err = at.LookupErr
			return
		}
		if v.connect(ctx, port(u)); !v.connects() {
			at.Err = at.Dials[0].Err
			return
		}
		if u.Scheme == "https" {
			v.shake(ctx, port(u))
		}
	}
	v.ask(ctx)
	v.read(ctx)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

func (v *visit) lookUp(ctx context.Context) {
	if ip := net.ParseIP(v.at.Host); ip != nil {
		v.at.Literal, v.at.Addresses = true, []string{v.at.Host}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, v.l.Step)
	defer cancel()
	begun := time.Now()
	v.at.Addresses, v.at.LookupErr = net.DefaultResolver.LookupHost(ctx, v.at.Host)
	v.at.LookedUp = time.Since(begun)
}

func (v *visit) connect(ctx context.Context, port string) {
	for _, a := range v.at.Addresses {
		d := Dial{Address: a}
		begun := time.Now()
		c, err := (&net.Dialer{Timeout: min(v.l.Step, 2*time.Second)}).DialContext(ctx, "tcp", net.JoinHostPort(a, port))
		if d.Took, d.Err = time.Since(begun), innermost(err); err == nil {
			_ = c.Close()
		}
		v.at.Dials = append(v.at.Dials, d)
	}
}

func (v *visit) connects() bool {
	for _, d := range v.at.Dials {
		if d.Err == nil {
			return true
		}
	}
	return false
}

// shake makes a handshake for the sake of the certificate. Nothing is sent over
// the connection, and it is judged afterwards: so a certificate that is not to be
// trusted is seen, too.
func (v *visit) shake(ctx context.Context, port string) {
	h := new(Handshake)
	v.at.TLS = h
	ctx, cancel := context.WithTimeout(ctx, v.l.Step)
	defer cancel()
	conf := new(tls.Config)
	if v.l.TLS != nil {
		conf = v.l.TLS().Clone()
	}
	name := cmp.Or(v.at.CertName, v.at.Host)
	conf.ServerName, conf.InsecureSkipVerify = name, true
	c, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", net.JoinHostPort(v.at.Host, port))
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

// ask has the replica tell of itself, and takes the time.
func (v *visit) ask(ctx context.Context) {
	for i := range rounds {
		var r lockapi.Replica
		sent := time.Now()
		header, err := v.get(ctx, lockapi.RouteReplica, &r)
		got := time.Now()
		if err != nil {
			if i == 0 {
				v.at.Err = err
			}
			return
		}
		if i == 0 {
			v.at.Replica, v.at.CellID = &r, header.Get(lockapi.HeaderCell)
		}
		if v.at.Took == 0 || got.Sub(sent) < v.at.Took {
			v.at.Took = got.Sub(sent)
			v.date(header, sent, got)
		}
	}
}

// date compares the wall clocks: the replica's stood within the second that it
// names, at some instant between sent and got.
func (v *visit) date(header http.Header, sent, got time.Time) {
	t, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	// Without Round the monotonic clock would be compared, which no Date has.
	v.at.Date = Window{t.Sub(got.Round(0)), t.Add(time.Second).Sub(sent.Round(0))}
	v.at.Dated = true
}

// read reads the metrics.
func (v *visit) read(ctx context.Context) {
	if v.at.Replica == nil {
		return
	}
	_, v.at.FiguresErr = v.get(ctx, lockapi.RouteMetrics, &v.at.Figures)
}

// maxAnswer bounds an answer in JSON.
const maxAnswer = 1 << 20

// get asks the server and reads what it answers.
func (v *visit) get(ctx context.Context, route string, into any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, v.l.Step)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.at.URL+route, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "stout/"+v.l.Version)
	if v.l.Token != nil && v.known {
		token, err := v.l.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("no token to send: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := v.transport.RoundTrip(req)
	if err != nil {
		return nil, innermost(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.Header, refusal(resp)
	}
	if f, ok := into.(*Figures); ok {
		*f, err = ReadFigures(resp.Body)
		return resp.Header, err
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return resp.Header, fmt.Errorf("the answer is none of stoutd's: %w", err)
	}
	return resp.Header, nil
}

// refusal is what an answer says that is none of success.
func refusal(resp *http.Response) error {
	var refused lockapi.Error
	err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&refused)
	if err != nil || refused.Code == "" {
		return fmt.Errorf("it answers %s, which is no answer of stoutd", resp.Status)
	}
	return &refused
}

// innermost is the part of an error that says what happened, not by which call of
// whose library; for a time that has run out, that.
func innermost(err error) error {
	if err == nil {
		return nil
	}
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("no answer in time")
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
