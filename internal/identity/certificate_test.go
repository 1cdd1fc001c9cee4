package identity

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func uris(all ...string) (parsed []*url.URL) {
	for _, one := range all {
		u, err := url.Parse(one)
		if err != nil {
			panic(err)
		}
		parsed = append(parsed, u)
	}
	return parsed
}

// TestNamesInCertificates: the name is the first URI, else the first DNS name, else
// the common name. If it cannot be a principal, no other name is used.
func TestNamesInCertificates(t *testing.T) {
	long := strings.Repeat("x", 250)
	for name, test := range map[string]struct {
		uris       []*url.URL
		dns        []string
		common     string
		want, fail string
	}{
		"a URI":               {uris("spiffe://example.com/billing", "spiffe://example.com/x"), []string{"a"}, "b", "user:spiffe://example.com/billing", ""},
		"a DNS name":          {nil, []string{"billing.example.com", "b"}, "c", "user:billing.example.com", ""},
		"a common name":       {nil, nil, "billing", "user:billing", ""},
		"letters of a word":   {nil, nil, "Zoë, Ops", "user:Zoë, Ops", ""},
		"a wildcard":          {nil, []string{"*.example.com"}, "", "user:*.example.com", ""},
		"the longest name":    {nil, nil, long + "123456", "user:" + long + "123456", ""},
		"nothing":             {nil, nil, "", "", "it names no principal"},
		"a replica's":         {uris("stout://replica/r1"), []string{"r1"}, "r1", "", "it is a replica's"},
		"a replica's, second": {uris("spiffe://a/b", "stout://replica/r1"), nil, "r1", "", "it is a replica's"},
		"a replica's kind":    {uris("STOUT://replica/r1"), nil, "r1", "", "it is a replica's"},
		"another of ours":     {uris("stout:x"), nil, "r1", "", "it is a replica's"},
		"the root by name":    {nil, nil, "root", "", "it names user:root"},
		"the root by DNS":     {nil, []string{"root"}, "billing", "", "it names user:root"},
		"the root by URI":     {uris("root"), nil, "billing", "", "it names user:root"},
		"an empty DNS name":   {nil, []string{"", "b"}, "c", "", "is empty"},
		"two lines":           {nil, nil, "a\nb", "", "is not a valid principal name"},
		"a NUL":               {nil, nil, "root\x00", "", "is not a valid principal name"},
		"an escape":           {nil, []string{"a\x1b[2J"}, "b", "", "is not a valid principal name"},
		"a name too long":     {nil, nil, long + "1234567", "", "is not a valid principal name"},
		"a URI too long":      {uris("spiffe://" + long), nil, "b", "", "is not a valid principal name"},
		"no UTF-8":            {nil, nil, "a\xff", "", "is not a valid principal name"},
		"no width":            {nil, nil, "ro\u200bot", "", "invisible characters"},
		"a filler":            {nil, nil, "root\u3164", "", "invisible characters"},
		"a filler, half":      {nil, nil, "root\uffa0", "", "invisible characters"},
		"a joiner":            {nil, nil, "root\u034f", "", "invisible characters"},
		"a variation":         {nil, nil, "root\ufe0f", "", "invisible characters"},
		"a blank of Braille":  {nil, nil, "root\u2800", "", "invisible characters"},
		"another blank":       {nil, nil, "ro\u00a0ot", "", "invisible characters"},
		"another line":        {nil, nil, "root\u2028", "", "invisible characters"},
		"for private use":     {nil, nil, "root\ue000", "", "invisible characters"},
		"a blank at the end":  {nil, nil, "root ", "", "begins or ends with a blank"},
		"a blank before":      {nil, nil, " root", "", "begins or ends with a blank"},
		"a blank alone":       {nil, nil, " ", "", "begins or ends with a blank"},
	} {
		got, err := proofOfCertificate(&x509.Certificate{URIs: test.uris, DNSNames: test.dns, Subject: pkix.Name{CommonName: test.common}}, "", time.Time{})
		switch {
		case test.fail == "" && (err != nil || got.Principal != test.want):
			t.Errorf("%s: %v, %v; want %s", name, got, err, test.want)
		case test.fail != "" && (err == nil || !strings.Contains(err.Error(), test.fail)):
			t.Errorf("%s: %v, %v; want %q", name, got, err, test.fail)
		}
	}
}

// A kept connection authenticates until a certificate of its chain expires.
func TestKeptConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := time.Now().Add(time.Hour)
		chain := func(leaf, between, ca time.Duration) (all []*x509.Certificate) {
			for _, d := range []time.Duration{leaf, between, ca} {
				all = append(all, &x509.Certificate{NotAfter: ends.Add(d), Subject: pkix.Name{CommonName: "billing"}})
			}
			return all
		}
		last := chain(time.Hour, 0, time.Hour)
		state := &tls.ConnectionState{PeerCertificates: last[:2], VerifiedChains: [][]*x509.Certificate{chain(0, 0, -time.Minute), last, chain(-time.Minute, 0, 0)}}
		for _, none := range []*tls.ConnectionState{nil, {}} {
			if p, err := OfCertificate(none, ""); p != nil || err != nil {
				t.Errorf("without a certificate: %+v, %v", p, err)
			}
		}
		if p, err := OfCertificate(&tls.ConnectionState{PeerCertificates: last}, ""); err == nil || !strings.Contains(err.Error(), "it was not verified") {
			t.Errorf("an unverified certificate: %+v, %v", p, err)
		}
		if p, err := OfCertificate(state, ""); err != nil || p.Principal != "user:billing" || !p.Ends.Equal(ends) {
			t.Fatalf("%+v, %v", p, err)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		if _, err := OfCertificate(state, ""); err != nil {
			t.Errorf("before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := OfCertificate(state, ""); err == nil || !strings.Contains(err.Error(), "it expired at") {
			t.Errorf("at its end: %v", err)
		}
	})
}

// A prefix comes before each name. The result is never root's name, nor too long.
func TestPrefixedNames(t *testing.T) {
	long := strings.Repeat("x", 250)
	for _, test := range []struct{ prefix, name, want, fail string }{
		{"", "ada", "user:ada", ""},
		{"jwt:", "ada", "user:jwt:ada", ""},
		{"jwt:", "root", "user:jwt:root", ""},
		{"jwt:", "jwt:ada", "user:jwt:jwt:ada", ""},
		{"jwt:", "", "", "is empty"},
		{"ro", "ot", "", "it names user:root"},
		{"jwt:xx", long, "user:jwt:xx" + long, ""},
		{"jwt:xxx", long, "", `is too long: with the prefix "jwt:xxx" it has 257 bytes, and the name of a principal has at most 256`},
		{"jwt:", long + "1234567", "", "is not a valid principal name"},
	} {
		got, err := proofOf("the name", test.prefix, test.name, time.Time{})
		if (err == nil) != (test.fail == "") || err == nil && got.Principal != test.want || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%q and %q: %v, %v", test.prefix, test.name, got, err)
		}
	}
	got, err := proofOfCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: "ada"}}, "cert:", time.Time{})
	if err != nil || got.Principal != "user:cert:ada" {
		t.Error(got, err)
	}
}
