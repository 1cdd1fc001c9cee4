package certs

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Names of the CA's files. Other files are named after their owner, with
// certSuffix and keySuffix.
const (
	caName     = "ca"
	certSuffix = ".pem"
	keySuffix  = "-key.pem"
)

const caYears = 10

// Order lists the certificates to make for a cell and its clients.
type Order struct {
	// Dir is the directory for the files. If it has a CA already, that CA
	// signs.
	Dir      string
	Replicas []Replica
	Clients  []string
	Ends     time.Time // expiry of the certificates; a new CA expires in ten years
}

// Replica is a replica that needs a certificate.
type Replica struct {
	ID    string
	Hosts []string // at which other replicas and clients dial it
}

// ParseReplica reads id=host, or id=host,host.
func ParseReplica(s string) (Replica, error) {
	id, hosts, ok := strings.Cut(s, "=")
	r := Replica{ID: id, Hosts: strings.Split(hosts, ",")}
	if !ok {
		return r, fmt.Errorf("%q is not of the form id=host, as in r1=10.0.0.1", s)
	}
	for _, h := range r.Hosts {
		if net.ParseIP(h) == nil && (len(h) > longestHost || !hostForm.MatchString(h)) {
			return r, fmt.Errorf("%q is neither a host name nor an address without a port, as in r1=10.0.0.1 or r1=host1.example.com", h)
		}
	}
	return r, nil
}

const longestHost = 253

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)
	hostForm = regexp.MustCompile(`^[A-Za-z0-9*_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)
)

// Made is the result of an Order.
type Made struct {
	CA    bool     // the CA is new
	Files []string // in the order in which they were made
	// Ends is when the certificates expire: as ordered, or with their CA.
	Ends time.Time
}

// Make makes everything in the order, or nothing. It overwrites no file.
func (o Order) Make() (Made, error) {
	if err := o.Check(); err != nil {
		return Made{}, err
	}
	w := &writer{dir: o.Dir}
	made := Made{}
	ca, err := o.authority()
	if err == nil && ca == nil {
		made.CA = true
		ca, err = NewAuthority("Stout CA", time.Now().AddDate(caYears, 0, 0))
		if err == nil {
			err = w.add(caName, ca.Certificate, ca.Key)
		}
	}
	if err != nil {
		return Made{}, err
	}
	for _, leaf := range o.leaves() {
		cert, key, err := ca.Issue(leaf)
		if err == nil {
			made.Ends = cert.NotAfter
			err = w.add(leaf.Name, cert, key)
		}
		if err != nil {
			return Made{}, err
		}
	}
	if err := w.write(); err != nil {
		return Made{}, err
	}
	for _, f := range w.files {
		made.Files = append(made.Files, f.name)
	}
	return made, nil
}

// Check refuses an order that would not have the effect that its author
// expects.
func (o Order) Check() error {
	if len(o.Replicas)+len(o.Clients) == 0 {
		return errors.New("name a replica or a client to make a certificate for")
	}
	taken := map[string]string{caName: "the CA", caName + "-key": "the CA's key"}
	reserve := func(name, what string) error {
		if !nameForm.MatchString(name) {
			return fmt.Errorf("%s %q: a name is 1 to 64 of A-Z a-z 0-9 . _ - @, beginning with a letter or a digit", what, name)
		}
		low := strings.ToLower(name) // some file systems ignore case
		for _, file := range []string{low, low + "-key"} {
			if other, ok := taken[file]; ok {
				return fmt.Errorf("%s %q has the name of %s; give it another one", what, name, other)
			}
		}
		taken[low] = what + " " + name
		taken[low+"-key"] = "the key of " + what + " " + name
		return nil
	}
	for _, r := range o.Replicas {
		if err := reserve(r.ID, "replica"); err != nil {
			return err
		}
	}
	for _, c := range o.Clients {
		if c == "root" {
			return errors.New(`client "root": user:root needs a token; a certificate of that name is refused`)
		}
		if err := reserve(c, "client"); err != nil {
			return err
		}
	}
	return nil
}

// authority returns the directory's CA, or nil.
func (o Order) authority() (*Authority, error) {
	certFile, keyFile := filepath.Join(o.Dir, caName+certSuffix), filepath.Join(o.Dir, caName+keySuffix)
	cert, certErr := readFile(certFile)
	key, keyErr := readFile(keyFile)
	switch {
	case errors.Is(certErr, os.ErrNotExist) && errors.Is(keyErr, os.ErrNotExist):
		return nil, nil
	case certErr != nil:
		return nil, certErr
	case keyErr != nil:
		return nil, fmt.Errorf("the directory has a CA, %s, but its key, which must sign, cannot be read: %w", certFile, keyErr)
	}
	ca, err := readAuthority(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	if time.Now().After(ca.Certificate.NotAfter) {
		return nil, fmt.Errorf("%s expired at %s; make a new CA in another directory", certFile, ca.Certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	return ca, nil
}

func (o Order) leaves() (all []Leaf) {
	for _, r := range o.Replicas {
		all = append(all, Leaf{Name: r.ID, Hosts: withLoopback(r.Hosts), URIs: []*url.URL{ReplicaURI(r.ID)}, Client: true, Ends: o.Ends})
	}
	for _, c := range o.Clients {
		all = append(all, Leaf{Name: c, Client: true, Ends: o.Ends})
	}
	return all
}

// withLoopback adds all loopback names to the hosts if one of them is a
// loopback name.
func withLoopback(hosts []string) []string {
	here := func(h string) bool {
		ip := net.ParseIP(h)
		return h == "localhost" || ip != nil && ip.IsLoopback()
	}
	all := slices.Clone(hosts)
	if slices.ContainsFunc(hosts, here) {
		all = append(all, "localhost", "127.0.0.1", "::1")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// writer writes new files, all or none.
type writer struct {
	dir   string
	files []newFile
}

type newFile struct {
	name    string
	content []byte
	mode    os.FileMode
}

func (w *writer) add(name string, cert *x509.Certificate, key crypto.Signer) error {
	secret, err := KeyPEM(key)
	if err != nil {
		return err
	}
	w.files = append(w.files,
		newFile{filepath.Join(w.dir, name+certSuffix), CertificatePEM(cert), 0o644},
		newFile{filepath.Join(w.dir, name+keySuffix), secret, 0o600})
	return nil
}

func (w *writer) write() error {
	for _, f := range w.files {
		if _, err := os.Lstat(f.name); err == nil {
			return fmt.Errorf("%s exists already, so nothing was written; move it away, or name another directory", f.name)
		}
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	for i, f := range w.files {
		if err := create(f); err != nil {
			for _, made := range w.files[:i] {
				_ = os.Remove(made.name)
			}
			return err
		}
	}
	return nil
}

// create writes a file that does not exist yet.
func create(f newFile) error {
	out, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	_, err = out.Write(f.content)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(f.name)
	}
	return err
}
