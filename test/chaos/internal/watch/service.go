package watch

import (
	"time"

	"github.com/stoutlock/stout/test/history"
)

// Service describes a cell's service during a record.
type Service struct {
	Elections int           // offices that began during the record
	Gap       time.Duration // longest time without an answer from a master
	GapAt     time.Duration // when it began
}

// Serve computes the Service. An answer counts if only a master can give it.
// The attempts must be in the order of their return.
func Serve(attempts []history.Attempt) (s Service) {
	var last time.Duration
	if len(attempts) > 0 {
		last = time.Duration(attempts[0].Call)
	}
	epochs := map[uint64]bool{}
	for i := range attempts {
		a := &attempts[i]
		switch a.Outcome {
		case history.NoEffect, history.Unknown, history.Wrong:
			continue
		}
		if a.Epoch > 0 {
			epochs[a.Epoch] = true
		}
		at := time.Duration(a.Return)
		if gap := at - last; gap > s.Gap {
			s.Gap, s.GapAt = gap, last
		}
		last = at
	}
	s.Elections = max(0, len(epochs)-1)
	return s
}
