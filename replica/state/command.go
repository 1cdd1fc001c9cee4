package state

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// MaxLeaseMS bounds the lease that a batch may carry, in milliseconds. It is
// checked where batches are made and again where they are applied, so that a
// new master knows how long it may have to wait at the worst.
const MaxLeaseMS = 60_000

// MaxCommands bounds the commands of one batch, and with them the memory that
// a few damaged bytes can ask for.
const MaxCommands = 1 << 14

// Kind says what a command does.
type Kind uint8

// The commands. Numbers are written to disk and never reused.
const (
	OpenOffice    Kind = 1 // Master, Term: a new term of office; alone in its batch
	CloseOffice   Kind = 2 // the master gives up; last in its batch
	OpenSession   Kind = 3 // Session, Name, TTLMS, Meta, Key, Digest
	CloseSession  Kind = 4 // Session: by its client; no lock-delay
	ExpireSession Kind = 5 // Session: not kept alive; holds leave their lock-delays
	Acquire       Kind = 6 // Session, Path, Handle, Mode, Limit, Wait, DelayMS
	Release       Kind = 7 // Session, Path, Handle, Token (0 = any)
	Withdraw      Kind = 8 // Session, Path, Handle, Seq, Undo: the calls of a wait ended
	EndDelay      Kind = 9 // Path, Seq: the lock-delay of that number is over
	// MarkState: the state after this entry is to be summed on every replica.
	MarkState Kind = 10
	// TellSum: Seq, Digest: the SHA-256 of the state after the marked entry Seq, as
	// the master has it; see State.Hash.
	TellSum Kind = 11
	// NoteMembers: Members: the cell's members, as the master has them.
	NoteMembers Kind = 12
)

func (k Kind) String() string {
	names := [...]string{"", "open-office", "close-office", "open-session", "close-session",
		"expire-session", "acquire", "release", "withdraw", "end-delay", "mark-state", "tell-sum", "note-members"}
	if int(k) < len(names) && k != 0 {
		return names[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Mode says how a lock is held.
type Mode uint8

// The modes. Numbers are written to disk.
const (
	Exclusive Mode = 1
	Shared    Mode = 2
)

func (m Mode) String() string {
	if m == Shared {
		return "shared"
	}
	return "exclusive"
}

// WaitFor says what becomes of an acquire that cannot be granted at once.
type WaitFor uint8

// The choices.
const (
	NoWait   WaitFor = 0 // refuse it
	WhileHot WaitFor = 1 // queue it; the place goes when the last waiting call does
	Keep     WaitFor = 2 // queue it; the place stays until granted, released or the session's end
)

// Command is one change. Which fields count depends on Kind, as listed there.
type Command struct {
	Kind Kind `cbor:"1,keyasint"`
	// Time is the proposing master's wall clock, Unix nanoseconds. It is only
	// shown to people (granted_at, created_at, since); nothing is decided by it.
	Time    int64             `cbor:"2,keyasint,omitempty"`
	Session string            `cbor:"3,keyasint,omitempty"`
	Path    string            `cbor:"4,keyasint,omitempty"`
	Handle  string            `cbor:"5,keyasint,omitempty"`
	Mode    Mode              `cbor:"6,keyasint,omitempty"`
	Limit   int64             `cbor:"7,keyasint,omitempty"`
	Wait    WaitFor           `cbor:"8,keyasint,omitempty"`
	DelayMS int64             `cbor:"9,keyasint,omitempty"`
	Token   uint64            `cbor:"10,keyasint,omitempty"`
	Seq     uint64            `cbor:"11,keyasint,omitempty"`
	Undo    bool              `cbor:"12,keyasint,omitempty"` // Withdraw: release too what the wait was granted
	TTLMS   int64             `cbor:"13,keyasint,omitempty"`
	Name    string            `cbor:"14,keyasint,omitempty"`
	Meta    map[string]string `cbor:"15,keyasint,omitempty"`
	Key     string            `cbor:"16,keyasint,omitempty"` // OpenSession: idempotency key
	Digest  []byte            `cbor:"17,keyasint,omitempty"` // OpenSession: of the body that came with Key; TellSum
	Master  string            `cbor:"18,keyasint,omitempty"`
	Term    uint64            `cbor:"19,keyasint,omitempty"` // OpenOffice: the raft term it was made for
	Caller  string            `cbor:"20,keyasint,omitempty"` // identity of the caller; kept free for access lists
	Members []Member          `cbor:"21,keyasint,omitempty"` // NoteMembers
}

// Batch is what one log entry carries: the commands that gathered while the
// entry before it was under way, the epoch in which they were admitted, and
// the lease that storing the entry promises to the master.
type Batch struct {
	Epoch    uint64    `cbor:"1,keyasint"`
	LeaseMS  int64     `cbor:"2,keyasint"`
	Commands []Command `cbor:"3,keyasint,omitempty"`
}

// batchVersion is the first byte of an encoded batch. A replica that meets a
// version it does not know has to stop: guessing would make it diverge.
const batchVersion = 1

// ErrVersion says that bytes were written by a release this one cannot read.
var ErrVersion = errors.New("unknown format version")

var encMode, decMode = mustModes()

func mustModes() (cbor.EncMode, cbor.DecMode) {
	opts := cbor.CoreDetEncOptions()
	opts.OmitEmpty = cbor.OmitEmptyCBORValue
	enc, err := opts.EncMode()
	if err != nil {
		panic(err)
	}
	dec, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8DecodeInvalid, // handles and names were checked at the door
		MaxArrayElements:  MaxCommands,
		MaxMapPairs:       1 << 16,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return enc, dec
}

// Encode writes the batch for the log: a version byte and CBOR with integer
// keys (RFC 8949, core deterministic encoding). It refuses what DecodeBatch
// would: once in the log, such an entry would stop every replica for good.
func (b *Batch) Encode() ([]byte, error) {
	if len(b.Commands) > MaxCommands {
		return nil, fmt.Errorf("encode batch: %d commands; at most %d are allowed", len(b.Commands), MaxCommands)
	}
	if err := b.known(); err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	body, err := encMode.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return append([]byte{batchVersion}, body...), nil
}

// DecodeBatch reads what Encode wrote. It fails with ErrVersion on bytes of a
// newer release and with another error on damaged ones; it never panics. The
// batch does not alias data.
func DecodeBatch(data []byte) (Batch, error) {
	if len(data) == 0 {
		return Batch{}, errors.New("decode batch: empty entry")
	}
	if data[0] != batchVersion {
		return Batch{}, fmt.Errorf("decode batch: version %d: %w (this release reads version %d)", data[0], ErrVersion, batchVersion)
	}
	var b Batch
	if err := decMode.Unmarshal(data[1:], &b); err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	if err := b.known(); err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	return b, nil
}

// known fails with ErrVersion where a command has a number that this release
// gives no meaning to: whatever it did with it, another release would differ.
func (b *Batch) known() error {
	for i := range b.Commands {
		c := &b.Commands[i]
		switch {
		case c.Kind < OpenOffice || c.Kind > NoteMembers:
			return fmt.Errorf("command %d has %v: %w", i, c.Kind, ErrVersion)
		case c.Mode > Shared:
			return fmt.Errorf("command %d has mode %d: %w", i, c.Mode, ErrVersion)
		case c.Wait > Keep:
			return fmt.Errorf("command %d has wait %d: %w", i, c.Wait, ErrVersion)
		}
	}
	return nil
}

// wellFormed reports whether c keeps the bounds that the state itself rests on:
// keys that can be told apart, modes and limits that mean something. The doors
// are far stricter; a command that came past them all the same is refused, for
// it must neither stop the replicas nor leave a state that cannot be restored.
func (c *Command) wellFormed() bool {
	if strings.IndexByte(c.Session, 0) >= 0 || strings.IndexByte(c.Path, 0) >= 0 {
		return false
	}
	switch c.Kind {
	case OpenSession:
		return c.Session != ""
	case Acquire:
		return c.Path != "" && sound(c.Mode, c.Limit)
	case TellSum:
		return len(c.Digest) == sha256.Size
	case NoteMembers:
		return soundMembers(c.Members)
	}
	return true
}

// sound reports whether a lock can be held in this mode with this limit.
func sound(mode Mode, limit int64) bool {
	return mode == Exclusive && limit == 0 || mode == Shared && limit >= 0
}

// Size estimates the encoded size of the command, in bytes.
func (c *Command) Size() int {
	n := 64 + len(c.Session) + len(c.Path) + len(c.Handle) + len(c.Name) + len(c.Key) + len(c.Digest) + len(c.Master) + len(c.Caller)
	for k, v := range c.Meta {
		n += len(k) + len(v) + 8
	}
	for _, m := range c.Members {
		n += len(m.ID) + len(m.Directory) + len(m.RaftAddr) + len(m.URL) + 24
	}
	return n
}
