package certs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/readfile"
)

// soon is how long before its end a certificate is reported.
const soon = 14 * 24 * time.Hour

// Check returns what is wrong with a set, beyond its form.
type Check func(*Set) error

// Source holds the contents that files of certificates had when they were last
// valid. Its methods are safe for concurrent use.
type Source struct {
	*readfile.Followed[generation]
	files Files
}

// generation is a Set and the configurations made of it.
type generation struct {
	set  *Set
	made sync.Map // use → *tls.Config
}

// Open reads the files. check may be nil.
func Open(files Files, check Check) (*Source, error) {
	followed, err := readfile.Follow([]string{files.Cert, files.Key, files.CA}, maxFile, func(before *generation, c [][]byte) (*generation, error) {
		set, err := files.parse(c[0], c[1], c[2])
		if err == nil && check != nil {
			err = check(set)
		}
		if err == nil && before != nil {
			err = files.alive(set, before.set)
		}
		return &generation{set: set}, err
	})
	return &Source{followed, files}, err
}

// Set returns the set in force. The caller must not change it.
func (s *Source) Set() *Set { return s.Present().set }

// Files returns the file names of the source.
func (s *Source) Files() Files { return s.files }

// Ends returns when the certificate in force expires, or the first of its
// chain, and when the last of the CAs does. The zero time means no certificate.
func (s *Source) Ends() (certificate, cas time.Time) { return s.Set().ends() }

// Notice is a report about a source.
type Notice struct {
	// Taken is set if changed files are in force.
	Taken bool
	// Refused is why changed files are not in force.
	Refused error
	// Ends is when the certificate expires or expired, soon or in the past.
	// With OfCAs it is the last CA instead.
	Ends  time.Time
	OfCAs bool
}

// Watch reads the files until ctx ends, and reports changes at once. Once a day
// it reports certificates that expire soon.
func (s *Source) Watch(ctx context.Context, say func(Notice)) {
	s.remind(say)
	reminded := time.Now()
	s.Followed.Watch(ctx, func(taken bool, refused error) {
		if taken || refused != nil {
			say(Notice{Taken: taken, Refused: refused})
		}
		if taken || time.Since(reminded) >= readfile.ReportEvery {
			s.remind(say)
			reminded = time.Now()
		}
	})
}

func (s *Source) remind(say func(Notice)) {
	certificate, cas := s.Ends()
	for _, n := range []Notice{{Ends: certificate}, {Ends: cas, OfCAs: true}} {
		if EndsSoon(n.Ends) {
			say(n)
		}
	}
}

// EndsSoon reports whether an end is close enough to be reported. The zero time
// is no end.
func EndsSoon(end time.Time) bool { return !end.IsZero() && time.Until(end) < soon }

// alive refuses a new certificate that is not valid now, and CAs that have all
// expired, as long as the present ones are valid.
func (f Files) alive(set, present *Set) error {
	now := time.Now()
	certificate, cas := present.ends()
	if _, ends := set.ends(); set.CAs != nil && now.After(ends) && !now.After(cas) {
		return fmt.Errorf("all CAs in the new %s have expired, the last at %s", f.CA, ends.UTC().Format(time.RFC3339))
	}
	if set.Certificate == nil || now.After(certificate) {
		return nil
	}
	switch leaf := set.Certificate.Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the new certificate in %s expired at %s", f.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the new certificate in %s is valid only from %s; check the clocks", f.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
