package boltlog

import (
	"cmp"
	"slices"
)

// span is a run of log entries without a gap, both ends included.
type span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// spans are the indexes of log entries, in order, with gaps in between: an
// earlier release left a gap behind a snapshot that it installed. The methods
// change nothing. No index is math.MaxUint64.
type spans []span

// first returns the lowest index, 0 for no entries.
func (s spans) first() uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[0].First
}

// last returns the highest index, 0 for no entries.
func (s spans) last() uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].Last
}

// covers reports whether every index from one to another is present.
func (s spans) covers(from, to uint64) bool {
	for _, o := range s {
		if o.First <= from && to <= o.Last {
			return true
		}
	}
	return from > to
}

// with returns the spans with the indexes from one to another added.
func (s spans) with(from, to uint64) spans {
	var out spans
	for _, o := range s {
		if o.Last+1 < from || to+1 < o.First {
			out = append(out, o)
		} else {
			from, to = min(from, o.First), max(to, o.Last)
		}
	}
	out = append(out, span{from, to})
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.First, b.First) })
	return out
}

// without returns the spans with the indexes from one to another removed.
func (s spans) without(from, to uint64) spans {
	if from > to {
		return s
	}
	var out spans
	for _, o := range s {
		if o.First < from {
			out = append(out, span{o.First, min(o.Last, from-1)})
		}
		if to < o.Last {
			out = append(out, span{max(o.First, to+1), o.Last})
		}
	}
	return out
}
