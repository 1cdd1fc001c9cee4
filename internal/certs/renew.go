package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Renew issues the certificates of a directory anew, with the same names, uses
// and keys. Without names it renews each one that the directory's CA has
// signed, but not the CA. It replaces each file in one step, so a program that
// reads the file meanwhile gets the old certificate or the new one.
func Renew(dir string, names []string, ends time.Time) (Made, error) {
	ca, err := Order{Dir: dir}.authority()
	if err == nil && ca == nil {
		err = fmt.Errorf("%s has no CA: %s%s is missing", dir, caName, certSuffix)
	}
	if err != nil {
		return Made{}, err
	}
	old, err := ca.issued(dir, names)
	if err != nil {
		return Made{}, err
	}
	made := Made{Ends: ca.until(ends)}
	for _, f := range old {
		next, err := ca.reissue(f.cert, made.Ends)
		if err == nil {
			err = replace(f.name, CertificatePEM(next))
		}
		if err != nil {
			return made, fmt.Errorf("%s: %w", f.name, err)
		}
		made.Files = append(made.Files, f.name)
	}
	return made, nil
}

type certFile struct {
	name string
	cert *x509.Certificate
}

// issued returns the named certificates of a directory, or all that the CA has
// signed.
func (a *Authority) issued(dir string, names []string) ([]certFile, error) {
	all := len(names) == 0
	if all {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), certSuffix)
			if ok && name != caName && !strings.HasSuffix(e.Name(), keySuffix) {
				names = append(names, name)
			}
		}
	}
	var out []certFile
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if !nameForm.MatchString(name) || name == caName {
			return nil, fmt.Errorf("%q is not the name of a certificate in %s", name, dir)
		}
		f := certFile{name: filepath.Join(dir, name+certSuffix)}
		content, err := readFile(f.name)
		if err != nil {
			return nil, err
		}
		block, more := pem.Decode(content)
		switch {
		case block == nil:
			err = errors.New("it is not in PEM form")
		case len(bytes.TrimSpace(more)) > 0:
			err = errors.New("it has a chain")
		default:
			if f.cert, err = x509.ParseCertificate(block.Bytes); err == nil {
				err = f.cert.CheckSignatureFrom(a.Certificate)
			}
		}
		switch {
		case err == nil:
			out = append(out, f)
		case !all:
			return nil, fmt.Errorf("%s is not a certificate of the CA in %s: %w", f.name, dir, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no certificate of its CA", dir)
	}
	return out, nil
}

// reissue signs a certificate like the old one, for the same key.
func (a *Authority) reissue(old *x509.Certificate, ends time.Time) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	return sign(&x509.Certificate{
		SerialNumber: serial, Subject: old.Subject, NotBefore: time.Now().Add(-slack), NotAfter: ends,
		KeyUsage: old.KeyUsage, ExtKeyUsage: old.ExtKeyUsage, BasicConstraintsValid: true,
		DNSNames: old.DNSNames, IPAddresses: old.IPAddresses, URIs: old.URIs,
	}, a.Certificate, old.PublicKey, a.Key)
}

// until returns the expiry of a certificate that is ordered until ends.
func (a *Authority) until(ends time.Time) time.Time {
	if ends.After(a.Certificate.NotAfter) {
		return a.Certificate.NotAfter
	}
	return ends
}

// replace replaces a file's content in one step, and keeps the file's mode.
func replace(name string, content []byte) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "replace", Path: name, Err: errors.New("it is not a regular file")}
	}
	next := newFile{name + ".new", content, info.Mode().Perm()}
	if err := os.Remove(next.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := create(next); err != nil {
		return err
	}
	return os.Rename(next.name, name)
}
