package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Unusable files are refused with the file's name and the reason.
func TestRefusedFiles(t *testing.T) {
	dir, other := order(t, r1), order(t, r1)
	good := filesOf(dir, "r1")
	file := func(content string) string {
		name := filepath.Join(t.TempDir(), "file.pem")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ca, err := os.ReadFile(good.CA)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*Files)
		want   string
	}{
		"no file":        {func(f *Files) { f.Cert = filepath.Join(dir, "none") }, "no such file"},
		"a directory":    {func(f *Files) { f.Key = dir }, "is a directory"},
		"nothing":        {func(f *Files) { f.Cert = file("") }, "failed to find any PEM data in certificate"},
		"another's key":  {func(f *Files) { f.Key = filesOf(other, "r1").Key }, "private key does not match public key"},
		"changed places": {func(f *Files) { f.Cert, f.Key = f.Key, f.Cert }, "r1-key.pem"},
		"an encrypted key": {func(f *Files) {
			f.Key = file("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n")
		}, "the key is encrypted"},
		"a CA of nothing":     {func(f *Files) { f.CA = file("# none\n") }, "it has no certificate"},
		"a key for a CA":      {func(f *Files) { f.CA = f.Key }, "only certificates belong there"},
		"a leaf for a CA":     {func(f *Files) { f.CA = f.Cert }, "is not a CA's"},
		"a CA cut short":      {func(f *Files) { f.CA = file(string(ca) + string(ca[:len(ca)/2])) }, "it ends within a certificate"},
		"another CA":          {func(f *Files) { f.CA = filesOf(other, "r1").CA }, "would not accept the certificate"},
		"something very long": {func(f *Files) { f.CA = file(strings.Repeat("x", maxFile+1)) }, "larger than"},
	} {
		f := good
		test.change(&f)
		if _, err := Open(f, OfReplica("r1")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := Open(good, OfReplica("r2")); err == nil || !strings.Contains(err.Error(), "stout://replica/r2") {
		t.Errorf("another replica's: %v", err)
	}
	if _, err := Open(good, OfReplica("r1")); err != nil {
		t.Error(err)
	}
}

// watched is a Source that is watched in a bubble.
type watched struct {
	*Source

	mu      sync.Mutex
	notices []Notice
}

func watch(t *testing.T, f Files, check Check, every ...time.Duration) *watched {
	t.Helper()
	s, err := Open(f, check)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Source: s}
	if len(every) > 0 {
		s.Every = every[0]
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Watch(ctx, func(n Notice) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notices = append(w.notices, n)
		})
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return w
}

// after lets time pass and returns the messages of that time.
func (w *watched) after(d time.Duration) (messages []string) {
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notices {
		switch {
		case n.Taken:
			messages = append(messages, "taken")
		case n.Refused != nil:
			messages = append(messages, "refused: "+n.Refused.Error())
		default:
			messages = append(messages, fmt.Sprintf("ends in %v, %v", time.Until(n.Ends).Round(time.Hour), n.OfCAs))
		}
	}
	w.notices = nil
	return messages
}

func wantMessages(t *testing.T, when string, messages []string, want ...string) {
	t.Helper()
	ok := len(messages) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.Contains(messages[i], want[i])
	}
	if !ok {
		t.Errorf("%s: messages %q, want %q", when, messages, want)
	}
}

// Changed files are used once they are complete and stay the same. Otherwise the old
// files stay in use, and the reason is reported once.
func TestFilesThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, other, third := order(t, r1), order(t, r1), order(t, r1)
		all := []string{"r1.pem", "r1-key.pem", "ca.pem"}
		w := watch(t, filesOf(dir, "r1"), OfReplica("r1"))
		serial := func() string { return w.Set().Certificate.Leaf.SerialNumber.String() }
		of := func(dir string) string {
			return open(t, filesOf(dir, "r1")).Set().Certificate.Leaf.SerialNumber.String()
		}
		first := serial()
		wantMessages(t, "at first", w.after(time.Hour))

		put(t, dir, other, all...)
		wantMessages(t, "at the first look", w.after(time.Second))
		if serial() != first {
			t.Error("files that were seen once are in force")
		}
		wantMessages(t, "at the second look", w.after(time.Second), "taken")
		if serial() != of(other) {
			t.Error("the new certificate is not in force")
		}

		put(t, dir, third, "r1.pem")
		wantMessages(t, "with half of it", w.after(time.Hour), "refused: "+dir)
		put(t, dir, third, all...)
		wantMessages(t, "with all of it", w.after(2*time.Second), "taken")
		if err := os.Remove(filepath.Join(dir, "ca.pem")); err != nil {
			t.Fatal(err)
		}
		wantMessages(t, "without the CA", w.after(time.Hour), "refused: open "+dir)
		put(t, dir, third, "ca.pem")
		wantMessages(t, "with the CA again", w.after(time.Hour))
		put(t, dir, other, "ca.pem")
		wantMessages(t, "with another CA", w.after(time.Hour), "refused: the other replicas would not accept")
		if serial() != of(third) || len(w.Set().CAs) != 1 {
			t.Error("the refused files are in force")
		}
		if c := w.Counts(); c.Taken != 2 || c.Refused != 3 {
			t.Errorf("%+v", c)
		}
	})
}

// A file that changes at every look is not used before it stays the same.
func TestFilesThatAreBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := order(t, r1)
		w := watch(t, filesOf(dir, "r1"), nil)
		content, err := os.ReadFile(filepath.Join(order(t, r1), "ca.pem"))
		if err != nil {
			t.Fatal(err)
		}
		before := w.Set()
		for n := range len(content) / 100 {
			if err := os.WriteFile(filepath.Join(dir, "ca.pem"), content[:100*n], 0o600); err != nil {
				t.Fatal(err)
			}
			wantMessages(t, "while it is written", w.after(time.Second))
		}
		if w.Set() != before {
			t.Error("the changing file is in force")
		}
		if err := os.WriteFile(filepath.Join(dir, "ca.pem"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		wantMessages(t, "when it is written", w.after(2*time.Second), "taken")
	})
}

// A new certificate that has expired is not used until the certificate in force has
// expired, too.
func TestCertificatesThatHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := order(t, Order{Replicas: r1.Replicas, Ends: time.Now().Add(20 * time.Hour)})
		ended := order(t, Order{Replicas: r1.Replicas, Ends: time.Now().Add(time.Hour)})
		time.Sleep(2 * time.Hour)
		w := watch(t, filesOf(dir, "r1"), nil, time.Minute)
		put(t, dir, ended, "r1.pem", "r1-key.pem")
		wantMessages(t, "with one that has ended", w.after(time.Hour), "ends in 17h0m0s, false", "refused: the new certificate in "+dir)
		wantMessages(t, "when both have", w.after(18*time.Hour), "taken", "ends in -2")
	})
}

// CAs that have all expired do not replace one that is valid.
func TestCAsThatHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := order(t, r1)
		w := watch(t, Files{CA: filepath.Join(dir, "ca.pem")}, nil)
		ended, err := NewAuthority("ended", time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		content := CertificatePEM(ended.Certificate)
		if err := os.WriteFile(filepath.Join(dir, "ca.pem"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		wantMessages(t, "with an ended CA", w.after(time.Minute), "refused: all CAs in the new "+dir)
		put(t, dir, order(t, r1), "ca.pem")
		wantMessages(t, "with a valid one", w.after(time.Minute), "taken")
	})
}

// Certificates that expire soon are reported at the start, and then daily.
func TestEndsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := order(t, Order{Replicas: r1.Replicas, Ends: time.Now().Add(15 * 24 * time.Hour)})
		w := watch(t, filesOf(dir, "r1"), nil, time.Hour)
		wantMessages(t, "15 days before", w.after(23*time.Hour))
		wantMessages(t, "14 days before", w.after(25*time.Hour), "ends in 312h0m0s, false")
		for day := 12; day >= -1; day-- {
			wantMessages(t, "daily", w.after(24*time.Hour), fmt.Sprintf("ends in %v", time.Duration(day)*24*time.Hour))
		}
		put(t, dir, order(t, r1), "r1.pem", "r1-key.pem")
		wantMessages(t, "with a new one", w.after(48*time.Hour), "taken")
		certificate, cas := w.Ends()
		if EndsSoon(certificate) || EndsSoon(cas) || EndsSoon(time.Time{}) || cas.Year() != 2010 {
			t.Errorf("%v, %v", certificate, cas)
		}
	})
}

// A server's configuration has the certificate in force, and is made once per
// certificate.
func TestServerConfigIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := order(t, r1)
		w := watch(t, filesOf(dir, "r1"), nil)
		optional, required := w.Server(tls.VerifyClientCertIfGiven), w.Server(tls.RequireAndVerifyClientCert)
		get := func(c *tls.Config) *tls.Config {
			got, err := c.GetConfigForClient(nil)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		first := get(optional)
		if first != get(optional) || first == get(required) || get(required).ClientAuth != tls.RequireAndVerifyClientCert {
			t.Error("the configuration is made for each handshake, or shared by servers that differ")
		}
		if !slices.Equal(first.NextProtos, []string{"http/1.1"}) {
			t.Errorf("the protocols are %q", first.NextProtos)
		}
		put(t, dir, order(t, r1), "r1.pem", "r1-key.pem", "ca.pem")
		wantMessages(t, "with a new one", w.after(2*time.Second), "taken")
		if get(optional) == first || get(optional).ClientCAs.Equal(first.ClientCAs) {
			t.Error("the configuration has the old certificate")
		}
	})
}
