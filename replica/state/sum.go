package state

import "crypto/sha256"

// MarkState has the state after its entry summed on every replica. Neither it
// nor ReportSum leaves a trace in the state: a replica that has no sum of its own
// to compare with holds the same bytes as one that has.
type MarkState struct{}

// ReportSum tells the master's sum of the state after an entry that was marked;
// see State.Hash.
type ReportSum struct {
	Entry uint64 `cbor:"1,keyasint,omitempty"`
	Sum   []byte `cbor:"2,keyasint,omitempty"` // SHA-256
}

// Marked says that the state after this entry is to be summed.
type Marked struct{}

// SumReported passes a sum on to whoever compares it.
type SumReported struct {
	Entry uint64
	Sum   [sha256.Size]byte
}

func (op *MarkState) wellFormed() bool            { return true }
func (op *MarkState) would(*State) (Result, bool) { return Done, true }
func (op *MarkState) size() int                   { return 1 }

func (op *MarkState) do(e *editor, r Result) Result {
	e.record(Marked{})
	return r
}

func (op *ReportSum) wellFormed() bool { return op.Entry != 0 && len(op.Sum) == sha256.Size }
func (op *ReportSum) size() int        { return 16 + len(op.Sum) }

// would refuses a sum of an entry that is yet to come.
func (op *ReportSum) would(s *State) (Result, bool) {
	if op.Entry > s.Index {
		return nil, false
	}
	return Done, true
}

func (op *ReportSum) do(e *editor, r Result) Result {
	e.record(SumReported{Entry: op.Entry, Sum: [sha256.Size]byte(op.Sum)})
	return r
}
