package doctor

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"strings"
)

func handshakes(s *Seen, g *gathered) {
	for _, at := range s.Servers {
		switch h := at.TLS; {
		case h == nil:
		case h.Err != nil:
			g.add(Bad, "Check the scheme of the URL, and that stoutd has a certificate (api-cert). Use http:// for a port without TLS.", "%s: TLS handshake failed: %v", at.URL, h.Err)
		case h.Distrust != nil:
			v, do := distrust(h)
			g.add(v, do, "%s: %s", at.URL, distrustText(h.Distrust))
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

func distrust(h *Handshake) (Verdict, string) {
	switch why := h.Distrust.(type) {
	case x509.HostnameError:
		return Bad, "Use a name that the certificate contains (" + list(namesIn(why.Certificate)) + "), or get a certificate for this name."
	case x509.UnknownAuthorityError:
		return Bad, "Name the CA of the replicas' certificates with --ca-cert. If you did, the file has a different CA."
	case x509.CertificateInvalidError:
		if why.Reason == x509.Expired {
			return Bad, "Get a new certificate (stout certs new, or your CA); stoutd loads it without a restart. Also check the clock of this host."
		}
	}
	return Bad, "Get a certificate for a server of that name."
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

// certificates checks the days left of the server's certificates and of the CA.
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
			switch {
			case left <= 0:
				g.add(Bad, "Get a new one. Clients that check it can no longer connect.", "%s: the %s %q expired %s ago", at.URL, what, c.Subject.CommonName, days(-left))
			case left < certSoon:
				g.add(Warn, "Get a new one; stoutd loads it without a restart. For a CA, first make clients and replicas trust the next one.", "%s: the %s %q expires in %s", at.URL, what, c.Subject.CommonName, days(left))
			default:
				g.ok("%s %q for %s", what, c.Subject.CommonName, days(left))
			}
		}
	}
}

// plaintext reports calls that leave this machine unencrypted.
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
