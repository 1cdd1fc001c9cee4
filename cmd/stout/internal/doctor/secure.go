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
			g.add(Bad, "Is the URL's scheme right, and does stoutd there speak TLS (api-cert)? A port that speaks none is http://.", "%s: no handshake: %v", at.URL, h.Err)
		case h.Distrust != nil:
			v, do := distrust(h)
			g.add(v, do, "%s: %s", at.URL, distrustText(h.Distrust))
		default:
			g.ok("%s, certificate of %q good for %s", tls.VersionName(h.Version), h.Shown[0].Subject.CommonName, cmp.Or(at.CertName, at.Host))
		}
	}
}

// distrustText is why a certificate is not trusted, without guesses at why not.
func distrustText(err error) string {
	if _, ok := err.(x509.UnknownAuthorityError); ok {
		return "its certificate is signed by nobody who is trusted here"
	}
	return err.Error()
}

func distrust(h *Handshake) (Verdict, string) {
	switch why := h.Distrust.(type) {
	case x509.HostnameError:
		return Bad, "Call the replica by a name that its certificate has (" + list(namesIn(why.Certificate)) + "), or have one made with this name."
	case x509.UnknownAuthorityError:
		return Bad, "Name the file of the CA that signs the replicas' certificates with --ca-cert. If you did, it is another one."
	case x509.CertificateInvalidError:
		if why.Reason == x509.Expired {
			return Bad, "Have a new certificate made (stout certs new, or your CA); stoutd takes it up without a restart. Is this host's clock right?"
		}
	}
	return Bad, "Have a certificate made that is for a server of that name."
}

func namesIn(c *x509.Certificate) []string {
	out := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	if len(out) == 0 {
		return []string{"it has none"}
	}
	return out
}

// certificates is about the days that are left of what is shown and of the CA.
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
				g.add(Bad, "Have a new one made. Nobody who checks it connects any more.", "%s: the %s %q ended %s ago", at.URL, what, c.Subject.CommonName, days(-left))
			case left < certSoon:
				g.add(Warn, "Have a new one made; stoutd takes it up without a restart. Of a CA: have clients and replicas trust the next one first.", "%s: the %s %q ends in %s", at.URL, what, c.Subject.CommonName, days(left))
			default:
				g.ok("%s %q for %s", what, c.Subject.CommonName, days(left))
			}
		}
	}
}

// plaintext is about calls that leave this machine unencrypted.
func plaintext(s *Seen, g *gathered) {
	var open []string
	for _, at := range s.Servers {
		if strings.HasPrefix(at.URL, "http://") && !at.loopback() && at.Err == nil {
			open = append(open, at.URL)
		}
	}
	if len(open) > 0 {
		g.add(Warn, "Whoever is on the way reads tokens and changes answers. Give the replicas certificates (api-cert, docs/security.md).", "calls go in plain text to %s", list(open))
	}
}
