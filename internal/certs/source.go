package certs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/readfile"
)

const (
	// lookEvery is the interval at which the files are read.
	lookEvery = time.Second
	// Soon is how long before its end a certificate is reported.
	Soon = 14 * 24 * time.Hour
	// remindEvery is the interval at which that is reported, and that files
	// cannot be used.
	remindEvery = 24 * time.Hour
)

// Check returns what is wrong with a set, beyond its form.
type Check func(*Set) error

// Source holds the contents that files of certificates had when they were last
// valid. Its methods are safe for concurrent use.
type Source struct {
	files   Files
	check   Check
	every   time.Duration
	reader  readfile.Reader
	present atomic.Pointer[generation]

	mu     sync.Mutex // guards the fields below
	seen   *sight     // by the last look; nil if it was the present content
	told   time.Time  // when the refusal of seen was last reported; zero before
	readAt time.Time  // when the files were last readable
	counts Counts
}

// sight is the result of reading the files.
type sight struct {
	contents
	failed string // why they could not be read
}

func (s sight) equal(other sight) bool {
	return s.failed == other.failed && s.contents.equal(other.contents)
}

// generation is a Set and the configurations made of it.
type generation struct {
	set  *Set
	from contents
	made sync.Map // use → *tls.Config
}

// Counts counts changes to a source's files.
type Counts struct{ Taken, Refused uint64 }

// Open reads the files. check may be nil.
func Open(files Files, check Check) (*Source, error) {
	if check == nil {
		check = func(*Set) error { return nil }
	}
	s := &Source{files: files, check: check, every: lookEvery, readAt: time.Now()}
	c, err := files.read(&s.reader)
	if err != nil {
		return nil, err
	}
	set, err := s.validate(c)
	if err != nil {
		return nil, err
	}
	s.present.Store(&generation{set: set, from: c})
	return s, nil
}

func (s *Source) validate(c contents) (*Set, error) {
	set, err := s.files.parse(c)
	if err != nil {
		return nil, err
	}
	return set, s.check(set)
}

// Set returns the set in force. The caller must not change it.
func (s *Source) Set() *Set { return s.present.Load().set }

// Files returns the file names of the source.
func (s *Source) Files() Files { return s.files }

// Counts returns how many changes were accepted and refused so far.
func (s *Source) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Unread returns for how long the files have been unreadable.
func (s *Source) Unread() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.readAt)
}

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
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		taken, refused := s.look()
		switch {
		case taken:
			say(Notice{Taken: true})
		case refused != nil:
			say(Notice{Refused: refused})
		}
		if taken || time.Since(reminded) >= remindEvery {
			s.remind(say)
			reminded = time.Now()
		}
	}
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
func EndsSoon(end time.Time) bool { return !end.IsZero() && time.Until(end) < Soon }

// look reads the files. It accepts them if they are new, valid, and the same as
// at the last look. It returns a refusal at once and once a day.
func (s *Source) look() (taken bool, refused error) {
	c, err := s.files.read(&s.reader)
	now := sight{contents: c}
	if err != nil {
		now.failed = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.readAt = time.Now()
	}
	if now.equal(sight{contents: s.present.Load().from}) {
		s.seen, s.told = nil, time.Time{}
		return false, nil
	}
	if s.seen == nil || !now.equal(*s.seen) {
		s.seen, s.told = &now, time.Time{}
		return false, nil
	}
	var set *Set
	if err == nil {
		set, err = s.validate(c)
	}
	if err == nil {
		err = s.alive(set)
	}
	switch {
	case err == nil:
		s.present.Store(&generation{set: set, from: c})
		s.seen, s.told = nil, time.Time{}
		s.counts.Taken++
		return true, nil
	case !s.told.IsZero() && time.Since(s.told) < remindEvery:
		return false, nil
	}
	if s.told.IsZero() {
		s.counts.Refused++
	}
	s.told = time.Now()
	return false, err
}

// alive refuses a new certificate that is not valid now, and CAs that have all
// expired, as long as the present ones are valid.
func (s *Source) alive(set *Set) error {
	now := time.Now()
	certificate, cas := s.Ends()
	if _, ends := set.ends(); set.CAs != nil && now.After(ends) && !now.After(cas) {
		return fmt.Errorf("all CAs in the new %s have expired, the last at %s", s.files.CA, ends.UTC().Format(time.RFC3339))
	}
	if set.Certificate == nil || now.After(certificate) {
		return nil
	}
	switch leaf := set.Certificate.Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the new certificate in %s expired at %s", s.files.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the new certificate in %s is valid only from %s; check the clocks", s.files.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
