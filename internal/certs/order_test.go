package certs

import (
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMake(t *testing.T) {
	dir := order(t, Order{
		Replicas: []Replica{{"r1", []string{"127.0.0.1"}}, {"r2", []string{"host2.example.com", "10.0.0.2"}}},
		Clients:  []string{"billing"},
	})
	want := map[string]fs.FileMode{
		"ca.pem": 0o644, "ca-key.pem": 0o600, "r1.pem": 0o644, "r1-key.pem": 0o600,
		"r2.pem": 0o644, "r2-key.pem": 0o600, "billing.pem": 0o644, "billing-key.pem": 0o600,
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(want) {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		info, _ := e.Info()
		if info.Mode() != want[e.Name()] {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	roots := x509.NewCertPool()
	for _, c := range open(t, filesOf(dir, "r1")).Set().CAs {
		roots.AddCert(c)
	}
	for name, test := range map[string]struct {
		hosts []string
		uri   string
		uses  []x509.ExtKeyUsage
	}{
		"r1":      {[]string{"127.0.0.1", "::1", "localhost"}, "stout://replica/r1", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}},
		"r2":      {[]string{"10.0.0.2", "host2.example.com"}, "stout://replica/r2", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}},
		"billing": {nil, "", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		leaf := open(t, filesOf(dir, name)).Set().Certificate.Leaf
		for _, h := range test.hosts {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: h}); err != nil {
				t.Errorf("%s at %s: %v", name, h, err)
			}
		}
		if len(leaf.DNSNames)+len(leaf.IPAddresses) != len(test.hosts) || leaf.Subject.CommonName != name || !slices.Equal(leaf.ExtKeyUsage, test.uses) {
			t.Errorf("%s: %v %v %v %v", name, leaf.DNSNames, leaf.IPAddresses, leaf.Subject, leaf.ExtKeyUsage)
		}
		if len(leaf.URIs) > 1 || len(leaf.URIs) == 1 != (test.uri != "") || len(leaf.URIs) == 1 && leaf.URIs[0].String() != test.uri {
			t.Errorf("%s: %v", name, leaf.URIs)
		}
	}
}

func open(t *testing.T, f Files) *Source {
	t.Helper()
	s, err := Open(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An order that gives a client a replica's name, or one file to two names, is
// refused before anything is written.
func TestRefusedOrders(t *testing.T) {
	replica := func(ids ...string) (all []Replica) {
		for _, id := range ids {
			all = append(all, Replica{id, []string{"h"}})
		}
		return all
	}
	for name, test := range map[string]struct {
		order Order
		want  string
	}{
		"nobody":                {Order{}, "name a replica or a client"},
		"a replica's name":      {Order{Replicas: replica("r1"), Clients: []string{"r1"}}, `client "r1" has the name of replica r1`},
		"but for capitals":      {Order{Replicas: replica("r1"), Clients: []string{"R1"}}, `client "R1" has the name of replica r1`},
		"that of its key":       {Order{Replicas: replica("r1"), Clients: []string{"r1-key"}}, `client "r1-key" has the name of the key of replica r1`},
		"whose key is another":  {Order{Clients: []string{"a-key", "a"}}, `client "a" has the name of client a-key`},
		"one given twice":       {Order{Replicas: replica("r1", "r1")}, `replica "r1" has the name of replica r1`},
		"that of the CA":        {Order{Clients: []string{"ca"}}, "the name of the CA"},
		"that of the CA's key":  {Order{Clients: []string{"ca-key"}}, "the name of the CA's key"},
		"root's":                {Order{Clients: []string{"root"}}, "needs a token"},
		"one that is a path":    {Order{Clients: []string{"../x"}}, "a name is 1 to 64"},
		"the URI of a replica":  {Order{Clients: []string{"stout://replica/r1"}}, "a name is 1 to 64"},
		"one of two lines":      {Order{Clients: []string{"a\nb"}}, "a name is 1 to 64"},
		"a replica with a path": {Order{Replicas: replica("a/b")}, "a name is 1 to 64"},
	} {
		o := test.order
		o.Dir, o.Ends = filepath.Join(t.TempDir(), "certs"), time.Now().AddDate(1, 0, 0)
		_, err := o.Make()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if _, err := os.Stat(o.Dir); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
	for _, s := range []string{"r1", "r1=", "r1=h:7101", "r1=http://h", "r1=h,", "r1=a b", "r1=" + strings.Repeat("h", longestHost+1)} {
		if r, err := ParseReplica(s); err == nil {
			t.Errorf("%q is read as %v", s, r)
		}
	}
	if _, err := ParseReplica("r1=" + strings.Repeat("h", longestHost)); err != nil {
		t.Error(err)
	}
}

// A directory's CA signs later certificates. No file is overwritten, and a refused
// order leaves no file behind.
func TestMakeMore(t *testing.T) {
	dir := order(t, r1)
	before := open(t, filesOf(dir, "r1")).Set().CAs[0]
	more := Order{Dir: dir, Clients: []string{"billing"}, Ends: time.Now().AddDate(100, 0, 0)}
	made, err := more.Make()
	if err != nil || made.CA || len(made.Files) != 2 {
		t.Fatalf("%v, %v", made, err)
	}
	set := open(t, filesOf(dir, "billing")).Set()
	if err := set.Certificate.Leaf.CheckSignatureFrom(before); err != nil {
		t.Error(err)
	}
	if set.Certificate.Leaf.NotAfter.After(before.NotAfter) {
		t.Error("a certificate outlasts its CA")
	}
	if !made.Ends.Equal(set.Certificate.Leaf.NotAfter) {
		t.Errorf("the reported end is %v, the certificate's is %v", made.Ends, set.Certificate.Leaf.NotAfter)
	}
	again := Order{Dir: dir, Replicas: []Replica{{"r2", []string{"h"}}}, Clients: []string{"billing"}, Ends: more.Ends}
	if _, err := again.Make(); err == nil || !strings.Contains(err.Error(), "billing.pem exists already") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "r2.pem")); err == nil {
		t.Error("half of it was written")
	}
	if err := os.Remove(filepath.Join(dir, "ca-key.pem")); err != nil {
		t.Fatal(err)
	}
	if _, err := (Order{Dir: dir, Clients: []string{"other"}, Ends: more.Ends}).Make(); err == nil || !strings.Contains(err.Error(), "its key, which must sign") {
		t.Errorf("%v", err)
	}
	put(t, dir, order(t, r1), "ca-key.pem")
	if _, err := (Order{Dir: dir, Clients: []string{"other"}, Ends: more.Ends}).Make(); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("%v", err)
	}
}

// TestRenew: a renewed certificate has the key, names and uses of the old one, a
// later end and another number. Files of others stay as they are.
func TestRenew(t *testing.T) {
	dir := order(t, Order{Replicas: r1.Replicas, Clients: []string{"billing"}, Ends: time.Now().Add(time.Hour)})
	put(t, dir, order(t, Order{Clients: []string{"other"}}), "other.pem", "other-key.pem")
	before := map[string]*x509.Certificate{}
	for _, name := range []string{"r1", "billing"} {
		before[name] = open(t, filesOf(dir, name)).Set().Certificate.Leaf
	}
	other, err := os.ReadFile(filepath.Join(dir, "other.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ends := time.Now().AddDate(1, 0, 0)
	made, err := Renew(dir, nil, ends)
	if err != nil || !slices.Equal(made.Files, []string{filepath.Join(dir, "billing.pem"), filepath.Join(dir, "r1.pem")}) {
		t.Fatalf("%v, %v", made, err)
	}
	for name, old := range before {
		now := open(t, filesOf(dir, name)).Set().Certificate.Leaf // refuses another key
		if !now.NotAfter.Equal(ends.UTC().Truncate(time.Second)) || now.SerialNumber.Cmp(old.SerialNumber) == 0 {
			t.Errorf("%s ends at %v", name, now.NotAfter)
		}
		now.NotAfter, now.NotBefore = old.NotAfter, old.NotBefore
		if now.Subject.String() != old.Subject.String() || !slices.Equal(now.DNSNames, old.DNSNames) || len(now.IPAddresses) != len(old.IPAddresses) ||
			len(now.URIs) != len(old.URIs) || !slices.Equal(now.ExtKeyUsage, old.ExtKeyUsage) || now.KeyUsage != old.KeyUsage {
			t.Errorf("%s was %+v and is %+v", name, old, now)
		}
	}
	if now, err := os.ReadFile(filepath.Join(dir, "other.pem")); err != nil || string(now) != string(other) {
		t.Errorf("another CA's certificate changed: %v", err)
	}
	if made, err := Renew(dir, nil, time.Now().AddDate(20, 0, 0)); err != nil || made.Ends.After(time.Now().AddDate(caYears, 0, 1)) {
		t.Errorf("it outlives its CA: %v, %v", made.Ends, err)
	}
	for _, name := range []string{"other", "ca", "none", "../x"} {
		if _, err := Renew(dir, []string{name}, ends); err == nil {
			t.Errorf("%s is renewed", name)
		}
	}
}
