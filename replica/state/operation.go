package state

import (
	"fmt"
	"strings"
)

// Kind is the number of an operation in the log.
type Kind uint8

// Operation is one change of the state that can be requested. Each has a type,
// in the file of its subject, and a row in the table below.
type Operation interface {
	kind() Kind
	// wellFormed reports whether the operation keeps the bounds on which the
	// state relies: distinct keys, and valid modes and limits. The API is far
	// stricter. The state refuses anything malformed that passed the API,
	// because it must neither stop the replicas nor leave a state that cannot
	// be restored. A malformed session id counts as unknown: the result is
	// NoSession.
	wellFormed() bool
	// would returns the result of the operation in s, and whether it changes
	// anything. The result omits what only the change can give, such as a
	// token.
	would(s *State) (Result, bool)
	// do makes the change that would has found; r is the result of would.
	do(e *editor, r Result) Result
	// size estimates the encoded size in bytes.
	size() int
}

// Result is the result of an operation: of the type that the operation names,
// by default a Verdict. It is nil if the operation was refused, because its
// batch was not accepted or it is malformed.
type Result any

// row describes a kind of operation.
type row struct {
	name   string
	level  uint64 // the cell's level must be at least this; see level.go
	decode func(data []byte) (op Operation, rest []byte, err error)
}

// operations lists every operation that this release knows, by kind. Kinds are
// written to disk and never reused.
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
	28: {"put-quota", levelQuotas, decode[PutQuota]},
	29: {"drop-quota", levelQuotas, decode[DropQuota]},
	30: {"change-keys", levelKeys, decode[ChangeKeys]},
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
func (*PutQuota) kind() Kind      { return 28 }
func (*DropQuota) kind() Kind     { return 29 }
func (*ChangeKeys) kind() Kind    { return 30 }

// decode reads an operation and returns the bytes after it.
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

// Name returns the name of an operation, such as "open-session".
func Name(op Operation) string { return op.kind().String() }

// Would returns the result that op would have if it were applied next in the
// present office, and whether it would change anything but the cell's time.
// Apply decides by the same function. So if nothing would change, a caller that
// may answer from memory need not use the log.
func (s *State) Would(op Operation) (r Result, changes bool) {
	if !s.supports(op) {
		return nil, false
	}
	return op.would(s)
}

// supports reports whether the state executes op rather than refuse it.
func (s *State) supports(op Operation) bool {
	return s.Office.Open && operations[op.kind()].level <= s.Level && op.wellFormed()
}

// plain reports whether a key has no NUL, which separates keys.
func plain(key string) bool { return strings.IndexByte(key, 0) < 0 }
