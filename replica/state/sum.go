package state

import "crypto/sha256"

// MarkState makes every replica compute a hash of the state after its entry.
// MarkState and ReportSum do not change the state. So a replica without a hash
// of its own to compare holds the same bytes as one with it.
type MarkState struct{}

// ReportSum carries the master's hash of the state after a marked entry; see
// State.Hash.
type ReportSum struct {
	Entry uint64 `cbor:"1,keyasint,omitempty"`
	Sum   []byte `cbor:"2,keyasint,omitempty"` // SHA-256
}

// Marked requests a hash of the state after this entry.
type Marked struct{}

// SumReported carries a hash to be compared.
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

// would refuses the sum of a future entry.
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
