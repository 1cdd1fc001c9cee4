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
	// lookEvery is how often the files are looked at.
	lookEvery = time.Second
	// Soon is how long before its end a certificate is spoken of.
	Soon = 14 * 24 * time.Hour
	// remindEvery is how often that is, and that files can't be used.
	remindEvery = 24 * time.Hour
)

// Check says what is wrong with what was read, beyond its form.
type Check func(*Set) error

// Source is what files of certificates had in them when they were last in good
// order. Its methods are safe for concurrent use.
type Source struct {
	files   Files
	check   Check
	every   time.Duration
	reader  readfile.Reader
	present atomic.Pointer[generation]

	mu     sync.Mutex // guards what follows
	seen   *sight     // by the last look; nil where that was present
	told   time.Time  // when it was last said why seen is not taken; zero before
	readAt time.Time  // when the files could be read last
	counts Counts
}

// sight is what a look at the files has found.
type sight struct {
	contents
	failed string // why they could not be read
}

func (s sight) equal(other sight) bool {
	return s.failed == other.failed && s.contents.equal(other.contents)
}

// generation is a Set, and what was made of it.
type generation struct {
	set  *Set
	from contents
	made sync.Map // of *tls.Config, by what for
}

// Counts are those of changes to a source's files.
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

// Set is what is in force. It is not to be changed.
func (s *Source) Set() *Set { return s.present.Load().set }

// Files are the names that the source was made of.
func (s *Source) Files() Files { return s.files }

// Counts tells how many changes were taken and refused so far.
func (s *Source) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Unread is for how long the files could not be read.
func (s *Source) Unread() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.readAt)
}

// Ends is when the certificate in force ends, or the first of those behind it;
// and the last of the CAs. The zero time stands for none.
func (s *Source) Ends() (certificate, cas time.Time) { return s.Set().ends() }

// Notice is what there is to say of a source.
type Notice struct {
	// Taken says that the files have changed, and are in force.
	Taken bool
	// Refused is why files that have changed are not in force.
	Refused error
	// Ends is when the certificate ends, or, with OfCAs, the last CA: soon, or it
	// has.
	Ends  time.Time
	OfCAs bool
}

// Watch looks at the files until ctx ends, and says what happens to them, and
// once a day what ends soon.
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

// EndsSoon says whether what ends then is to be spoken of. The zero time is the
// end of nothing.
func EndsSoon(end time.Time) bool { return !end.IsZero() && time.Until(end) < Soon }

// look reads the files and takes what is there, if it is new, in good order, and
// the same as the last time. A refusal is said at once and once a day.
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

// alive refuses a new certificate that is of no use now, as long as the one in
// force is.
func (s *Source) alive(set *Set) error {
	if set.Certificate == nil {
		return nil
	}
	now := time.Now()
	if certificate, _ := s.Ends(); now.After(certificate) {
		return nil
	}
	switch leaf := set.Certificate.Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the new certificate in %s has ended at %s", s.files.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the new certificate in %s begins at %s only; are the clocks right?", s.files.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
