package doctor

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// Limits for a good connection.
const (
	slowLookup  = 500 * time.Millisecond
	slowDial    = 200 * time.Millisecond
	slowAnswer  = 250 * time.Millisecond
	wallWarn    = 5 * time.Second
	wallBad     = time.Minute
	tokenSoon   = time.Hour
	certSoon    = 14 * 24 * time.Hour // as in stoutd
	addressWord = "an address, not a name"
)

func names(s *Seen, g *gathered) {
	if s.NamesErr != nil {
		g.add(Bad, "Correct the name in --server or STOUT_SERVER, or add it to DNS: dns:NAME:PORT needs addresses, dns:NAME needs SRV records.", "%v", s.NamesErr)
	}
	for _, at := range s.Servers {
		switch {
		case at.Proxy != "":
		case at.Literal:
			g.ok("%s is %s", at.Host, addressWord)
		case at.LookupErr != nil:
			g.add(Bad, "Correct the name in --server or STOUT_SERVER, or add it to DNS or /etc/hosts.", "%s: %v", at.Host, at.LookupErr)
		case at.LookedUp >= slowLookup:
			g.add(Warn, "Each new connection may wait for this. Check the resolver (/etc/resolv.conf), or use addresses.", "%s took %s to resolve", at.Host, took(at.LookedUp))
		default:
			g.ok("%s is %s (%s)", at.Host, list(at.Addresses), took(at.LookedUp))
		}
	}
}

func connections(s *Seen, g *gathered) {
	none := !slices.ContainsFunc(s.Servers, (*Server).Answers)
	for _, at := range s.Servers {
		bad := slices.DeleteFunc(slices.Clone(at.Dials), func(d Dial) bool { return d.Err == nil })
		switch {
		case len(at.Dials) == 0: // with a proxy, or without an address
		case !at.Named && !at.connects(): // see urls
		case !at.connects():
			v, do := Warn, "Check that stoutd runs there and that no firewall blocks this host."
			if none {
				v = Bad
			} else {
				do += " Until then the other replicas serve, if they are healthy."
			}
			g.add(v, do, "%s: %v", at.URL, at.Dials[0].Err)
		case len(bad) > 0:
			for _, d := range bad {
				g.add(Warn, "Remove the address from DNS, or make it answer: new connections may lose time there.", "%s: address %s does not connect, but others do: %v", at.URL, d.Address, d.Err)
			}
		case at.slowest() >= slowDial:
			g.add(Warn, "The network is slow or loses packets. Use a session ttl many times as long.", "%s took %s", at.URL, took(at.slowest()))
		default:
			g.ok("%s in %s", at.URL, took(at.slowest()))
		}
	}
}

func (s *Server) slowest() (longest time.Duration) {
	for _, d := range s.Dials {
		longest = max(longest, d.Took)
	}
	return longest
}

func proxies(s *Seen, g *gathered) {
	for _, at := range s.Servers {
		if at.Proxy != "" {
			g.add(Warn, "A proxy with a time limit for calls cuts off waits and keepalives. Bypass it with NO_PROXY="+at.Host+".", "%s is called through the proxy %s from the environment", at.URL, at.Proxy)
		}
	}
	if len(g.findings) == 0 {
		g.ok("no proxy between here and the cell")
	}
}

// answers reports servers that connect but do not answer.
func answers(s *Seen, g *gathered) {
	for _, at := range s.Servers {
		refused, _ := errors.AsType[*lockapi.Error](at.Err)
		switch {
		case at.Err == nil && at.Replica != nil:
			g.ok("%s is %s", at.URL, cmp.Or(at.Replica.ID, "nameless"))
		case at.Proxy == "" && !at.connects(), at.TLS.fails():
		case ask.IsDenial(at.Err):
			g.add(Warn, "Use a credential with the right to observe the cell: --token-file FILE, or --cert and --key.", "%s refuses this caller: %s", at.URL, refused.Code)
		default:
			g.add(Bad, "The server accepts connections but does not answer: the process hangs, the machine is overloaded, or it is not stoutd. Check its log.", "%s: %v", at.URL, at.Err)
		}
	}
}

// fails reports whether the check of handshakes explains why there is no answer.
func (h *Handshake) fails() bool {
	return h != nil && (h.Distrust != nil || h.Err != nil && !errors.Is(h.Err, ask.ErrNoAnswer))
}

func latency(s *Seen, g *gathered) {
	for _, at := range s.answered() {
		if at.Took >= slowAnswer {
			g.add(Warn, "Each call, also a keepalive, takes at least this long. Use a session ttl many times as long.", "%s: fastest answer %s", at.Replica.ID, took(at.Took))
		} else {
			g.ok("%s %s", at.Replica.ID, took(at.Took))
		}
	}
}

func sameCell(s *Seen, g *gathered) {
	ids := bySame{}
	for _, at := range s.Servers {
		if at.Err == nil {
			ids.add(at.CellID, at.URL)
		}
	}
	switch len(ids) {
	case 0:
		g.add(Unknown, "", "no server reported its cell")
	case 1:
		g.ok("all belong to the cell with id %s", ids[0].what)
	default:
		var words []string
		for _, c := range ids {
			words = append(words, c.what+" at "+list(c.who))
		}
		g.add(Bad, "Name replicas of one cell only: locks of different cells are independent.", "different cells answer: %s", strings.Join(words, "; "))
	}
}

func wallClock(s *Seen, g *gathered) {
	const do = "Set the clock of this host or of that one by NTP. Certificates and JWTs depend on it; leases and sessions do not."
	for _, at := range s.Servers {
		if !at.Dated {
			continue
		}
		off, name := at.Date.least(), at.URL
		if at.Replica != nil {
			name = at.Replica.ID
		}
		switch {
		case off >= wallWarn:
			g.add(worse(off >= wallBad), do, "%s is %s this host by at least %s", name, at.Date.side(), took(off))
		default:
			g.ok("%s within %s", name, took(max(at.Date.High, -at.Date.Low)))
		}
	}
}

// least returns the distance of a window from zero.
func (w Interval) least() time.Duration { return max(0, w.Low, -w.High) }

func (w Interval) side() string {
	if w.Low > 0 {
		return "ahead of"
	}
	return "behind"
}

func tokenEnd(s *Seen, g *gathered) {
	switch left := s.TokenEnds.Sub(s.At); {
	case s.TokenEnds.IsZero():
	case left <= 0:
		g.add(Bad, "Get a new one: calls with it are refused.", "the JWT expired %s ago", took(-left))
	case left < tokenSoon:
		g.add(Warn, "Check that it is renewed: a token file is read for each call.", "the JWT expires in %s", took(left))
	default:
		g.ok("the JWT is valid for %s", took(left))
	}
}

func credential(s *Seen, g *gathered) {
	const howTo = "--token-file FILE, or --cert and --key."
	switch {
	case errors.Is(s.WhoErr, lockapi.CodeUnauthenticated):
		g.add(Bad, "Send a valid one: "+howTo, "the credential is refused: %v", s.WhoErr)
	case s.WhoErr != nil || s.Who == nil:
		g.add(Unknown, "", "the cell does not report it: %s", orNothing(s.WhoErr))
	case s.Who.How != lockapi.HowNone:
		g.ok("%s, by %s", s.Who.Principal, s.Who.How)
	case s.Token:
		g.add(Warn, "", "a token was sent, but the cell sees us as %s", s.Who.Principal)
	case s.Cell != nil && s.Cell.Access:
		g.add(Warn, "Send a credential: "+howTo, "no credential is sent while access control is on: we have only the permissions of anonymous")
	default:
		g.ok("%s, without a credential", s.Who.Principal)
	}
}

func orNothing(err error) string {
	if err == nil {
		return "no answer"
	}
	return err.Error()
}

func clientVersion(s *Seen, g *gathered) {
	for _, at := range s.answered() {
		switch v := at.Replica.Version; v {
		case "":
		case s.Version:
			g.ok("stout %s, like the cell", s.Version)
		default:
			g.add(Warn, "This does no harm. Upgrade the older one when you can: a program cannot use features that its cell lacks.", "stout is %s, but %s runs %s", s.Version, at.Replica.ID, v)
		}
	}
}

func handshakes(s *Seen, g *gathered) {
	for _, at := range s.Servers {
		switch h := at.TLS; {
		case h == nil:
		case errors.Is(h.Err, ask.ErrNoAnswer): // see answers
		case h.Err != nil:
			g.add(Bad, "Check the scheme of the URL, and that stoutd has a certificate (api-cert). Use http:// for a port without TLS.", "%s: TLS handshake failed: %v", at.URL, h.Err)
		case h.Distrust != nil:
			g.add(Bad, cureOf(h.Distrust), "%s: %s", at.URL, distrustText(h.Distrust))
		default:
			g.ok("%s, certificate of %q valid for %s", tls.VersionName(h.Version), h.Shown[0].Subject.CommonName, cmp.Or(at.CertName, at.Host))
		}
	}
}

// distrustText returns why a certificate is not trusted, without guesses at the
// cause.
func distrustText(err error) string {
	if _, ok := err.(x509.UnknownAuthorityError); ok {
		return "its certificate is signed by a CA that is not trusted here"
	}
	return err.Error()
}

func cureOf(distrust error) string {
	switch why := distrust.(type) {
	case x509.HostnameError:
		return "Use a name that the certificate contains (" + list(namesIn(why.Certificate)) + "), or get a certificate for this name."
	case x509.UnknownAuthorityError:
		return "Name the CA of the replicas' certificates with --ca-cert. If you did, the file has a different CA."
	case x509.CertificateInvalidError:
		if why.Reason == x509.Expired {
			return "Get a new certificate (stout certs new, or your CA); stoutd loads it without a restart. Also check the clock of this host."
		}
	}
	return "Get a certificate for a server of that name."
}

func namesIn(c *x509.Certificate) []string {
	out := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	if len(out) == 0 {
		return []string{"no names"}
	}
	return out
}

func certificates(s *Seen, g *gathered) {
	for _, at := range s.Servers {
		if at.TLS == nil || at.TLS.Err != nil {
			continue
		}
		chain := at.TLS.Trusted
		if chain == nil {
			chain = at.TLS.Shown
		}
		for i, c := range chain {
			what := "certificate"
			if i > 0 {
				what = "CA"
			}
			left := c.NotAfter.Sub(s.At)
			g.certificate(at.URL, fmt.Sprintf("%s %q", what, c.Subject.CommonName), left,
				"Get a new one. Clients that check it can no longer connect.",
				"Get a new one; stoutd loads it without a restart. For a CA, first make clients and replicas trust the next one.")
		}
	}
}

// certificate reports how long a certificate is valid. expired and soon are
// advice.
func (g *gathered) certificate(where, what string, left time.Duration, expired, soon string) {
	switch {
	case left <= 0:
		g.add(Bad, expired, "%s: the %s expired %s ago", where, what, days(-left))
	case left < certSoon:
		g.add(Warn, soon, "%s: the %s expires in %s", where, what, days(left))
	default:
		g.ok("%s for %s", what, days(left))
	}
}

func plaintext(s *Seen, g *gathered) {
	var open []string
	for _, at := range s.Servers {
		if strings.HasPrefix(at.URL, "http://") && !at.loopback() && at.Err == nil {
			open = append(open, at.URL)
		}
	}
	if len(open) > 0 {
		g.add(Warn, "An attacker on the network can read tokens and change answers. Give the replicas certificates (api-cert, docs/security.md).", "calls go in plain text to %s", list(open))
	}
}
