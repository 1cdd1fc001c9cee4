package state

import (
	"fmt"
	"strings"
)

// Kind is the number of an operation in the log.
type Kind uint8

// Operation is one change that can be asked of the state. There is a type for
// each, in the file of what it is about, and a row in the table below.
type Operation interface {
	kind() Kind
	// wellFormed reports whether the operation keeps the bounds that the state
	// itself rests on: keys that can be told apart, modes and limits that mean
	// something. The doors are far stricter; what came past them all the same is
	// refused, for it must neither stop the replicas nor leave a state that cannot
	// be restored. A session that can't be is none: who names one is told so.
	wellFormed() bool
	// would is what the operation comes to in s, and whether it changes anything.
	// What the change is yet to give, such as a token, is not in the result.
	would(s *State) (Result, bool)
	// do makes the change that would has found, r being its result.
	do(e *editor, r Result) Result
	// size estimates the encoded size in bytes.
	size() int
}

// Result is what an operation came to: of the type that the operation names, a
// Verdict unless it names another. It is nil where the operation was refused:
// its batch was not accepted, or it makes no sense.
type Result any

// row is what the state has to know of a kind of operation.
type row struct {
	name   string
	level  uint64 // of the cell, from which on it may be proposed; see level.go
	decode func(data []byte) (op Operation, rest []byte, err error)
}

// operations are all that this release knows, by kind. Kinds are written to
// disk and never used again for something else.
var operations = [...]row{
	1:  {"open-office", 1, decode[OpenOffice]},
	2:  {"close-office", 1, decode[CloseOffice]},
	3:  {"open-session", 1, decode[OpenSession]},
	4:  {"close-session", 1, decode[CloseSession]},
	5:  {"expire-session", 1, decode[ExpireSession]},
	6:  {"acquire", 1, decode[Acquire]},
	7:  {"release", 1, decode[Release]},
	8:  {"withdraw", 1, decode[Withdraw]},
	9:  {"end-delay", 1, decode[EndDelay]},
	10: {"mark-state", 1, decode[MarkState]},
	11: {"tell-sum", 1, decode[ReportSum]},
	12: {"note-members", 1, decode[NoteMembers]},
	13: {"raise-level", 1, decode[RaiseLevel]},
	14: {"transaction", 1, decodeTransaction},
	15: {"put-rule", levelAccess, decode[PutRule]},
	16: {"drop-rule", levelAccess, decode[DropRule]},
	17: {"put-group", levelAccess, decode[PutGroup]},
	18: {"drop-group", levelAccess, decode[DropGroup]},
	19: {"put-cell-rules", levelAccess, decode[PutCellRules]},
	20: {"add-token", levelAccess, decode[AddToken]},
	21: {"drop-token", levelAccess, decode[DropToken]},
	22: {"enable-access", levelAccess, decode[EnableAccess]},
	23: {"disable-access", levelAccess, decode[DisableAccess]},
	24: {"adopt-session", levelAccess, decode[AdoptSession]},
	25: {"expel", levelAccess, decode[Expel]},
	26: {"put-member", levelMembers, decode[PutMember]},
	27: {"drop-rules", levelRights, decode[DropRules]},
}

func (*OpenOffice) kind() Kind    { return 1 }
func (*CloseOffice) kind() Kind   { return 2 }
func (*OpenSession) kind() Kind   { return 3 }
func (*CloseSession) kind() Kind  { return 4 }
func (*ExpireSession) kind() Kind { return 5 }
func (*Acquire) kind() Kind       { return 6 }
func (*Release) kind() Kind       { return 7 }
func (*Withdraw) kind() Kind      { return 8 }
func (*EndDelay) kind() Kind      { return 9 }
func (*MarkState) kind() Kind     { return 10 }
func (*ReportSum) kind() Kind     { return 11 }
func (*NoteMembers) kind() Kind   { return 12 }
func (*RaiseLevel) kind() Kind    { return 13 }
func (*Transaction) kind() Kind   { return 14 }
func (*PutRule) kind() Kind       { return 15 }
func (*DropRule) kind() Kind      { return 16 }
func (*PutGroup) kind() Kind      { return 17 }
func (*DropGroup) kind() Kind     { return 18 }
func (*PutCellRules) kind() Kind  { return 19 }
func (*AddToken) kind() Kind      { return 20 }
func (*DropToken) kind() Kind     { return 21 }
func (*EnableAccess) kind() Kind  { return 22 }
func (*DisableAccess) kind() Kind { return 23 }
func (*AdoptSession) kind() Kind  { return 24 }
func (*Expel) kind() Kind         { return 25 }
func (*PutMember) kind() Kind     { return 26 }
func (*DropRules) kind() Kind     { return 27 }

// decode reads an operation and returns the bytes behind it.
func decode[T any, P interface {
	*T
	Operation
}](data []byte) (Operation, []byte, error) {
	op := P(new(T))
	rest, err := decMode.UnmarshalFirst(data, op)
	return op, rest, err
}

// known reports whether this release has an operation of that kind.
func (k Kind) known() bool { return int(k) < len(operations) && operations[k].decode != nil }

func (k Kind) String() string {
	if k.known() {
		return operations[k].name
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Name is what people call an operation, for instance "open-session".
func Name(op Operation) string { return op.kind().String() }

// Would is what op would come to if it were applied next, in the present
// office, and whether it would change anything but the cell's time. It is the
// function by which Apply decides: who may answer from memory need not ask the
// log where nothing would change.
func (s *State) Would(op Operation) (r Result, changes bool) {
	if !s.supports(op) {
		return nil, false
	}
	return op.would(s)
}

// supports reports whether op is not refused, whatever it comes to.
func (s *State) supports(op Operation) bool {
	return s.Office.Open && operations[op.kind()].level <= s.Level && op.wellFormed()
}

// plain reports whether a key can stand beside others: NUL parts them.
func plain(key string) bool { return strings.IndexByte(key, 0) < 0 }
