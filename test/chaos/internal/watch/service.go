package watch

import (
	"time"

	"github.com/stoutlock/stout/test/history"
)

// Service is what a record tells of a cell's service.
type Service struct {
	Elections int           // terms of office that begun during the record
	Gap       time.Duration // longest time in which nobody was served
	GapAt     time.Duration // when it began
}

// Serve finds it out. Served is whoever had an answer that only a master gives.
// The attempts are in the order of their return.
func Serve(attempts []history.Attempt) (s Service) {
	var last time.Duration
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
