package state

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// MaxLeaseMS bounds the lease of a batch, in milliseconds. It is checked when a
// batch is made and again when it is applied, so a new master knows the longest
// time it may have to wait.
const MaxLeaseMS = 60_000

// MaxCommands bounds the commands of one batch, and so the memory that a few
// damaged bytes can request.
const MaxCommands = 1 << 14

// Command is an operation as the master proposes it.
type Command struct {
	// Time is the wall clock of the proposing master, in Unix nanoseconds. It
	// is only shown to people (granted_at, created_at, since) and decides
	// nothing.
	Time int64
	// Caller is the principal that makes the call; empty if unknown.
	Caller string
	Operation
}

// Batch is the content of one log entry: the commands that gathered while the
// previous entry was in progress, the epoch that admitted them, and the lease.
// By storing the entry, a replica promises that lease to the master.
type Batch struct {
	Epoch    uint64
	LeaseMS  int64
	Commands []Command
}

// batchVersion is the first byte of an encoded batch. A replica that reads an
// unknown version must stop: guessing would make it diverge. New operations in
// a release need a new level (level.go), not a new version.
const batchVersion = 2

// ErrVersion reports bytes written by a release that this one cannot read.
var ErrVersion = errors.New("unknown format version")

// A batch is encoded as its version and a sequence of CBOR items (RFC 8742): a
// batchHead, then a commandHead and an operation for each command.
type (
	batchHead struct {
		_        struct{} `cbor:",toarray"`
		Epoch    uint64
		LeaseMS  int64
		Commands uint64
	}
	commandHead struct {
		_      struct{} `cbor:",toarray"`
		Kind   Kind
		Time   int64
		Caller string
	}
)

var encMode, decMode = mustModes()

// mustModes returns a deterministic encoder (RFC 8949, section 4.2.1) with
// integer keys, and a strict decoder.
func mustModes() (cbor.UserBufferEncMode, cbor.DecMode) {
	opts := cbor.CoreDetEncOptions()
	opts.OmitEmpty = cbor.OmitEmptyCBORValue
	enc, err := opts.UserBufferEncMode()
	if err != nil {
		panic(err)
	}
	dec, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8DecodeInvalid, // handles and names are checked at the API
		MaxArrayElements:  MaxCommands,
		MaxMapPairs:       1 << 16,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return enc, dec
}

// Encode encodes the batch for the log. It refuses what DecodeBatch would
// refuse: once in the log, such an entry would stop every replica permanently.
func (b *Batch) Encode() ([]byte, error) {
	if len(b.Commands) > MaxCommands {
		return nil, fmt.Errorf("encode batch: %d commands; at most %d are allowed", len(b.Commands), MaxCommands)
	}
	var out bytes.Buffer
	out.Grow(b.Size())
	out.WriteByte(batchVersion)
	if err := encMode.MarshalToBuffer(batchHead{Epoch: b.Epoch, LeaseMS: b.LeaseMS, Commands: uint64(len(b.Commands))}, &out); err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	for i := range b.Commands {
		if err := b.Commands[i].encode(&out); err != nil {
			return nil, fmt.Errorf("encode batch: command %d: %w", i, err)
		}
	}
	return out.Bytes(), nil
}

func (c *Command) encode(out *bytes.Buffer) error {
	if c.Operation == nil {
		return errors.New("no operation")
	}
	if err := readable(c.Operation); err != nil {
		return err
	}
	if err := encMode.MarshalToBuffer(commandHead{Kind: c.kind(), Time: c.Time, Caller: c.Caller}, out); err != nil {
		return err
	}
	if own, ok := c.Operation.(interface{ encode(*bytes.Buffer) error }); ok {
		return own.encode(out)
	}
	return encMode.MarshalToBuffer(c.Operation, out)
}

// DecodeBatch reads what Encode wrote. It fails with ErrVersion on bytes of a
// newer release and with another error on damaged ones; it never panics. Large
// file contents alias data, which must not change afterwards.
func DecodeBatch(data []byte) (Batch, error) {
	if len(data) == 0 {
		return Batch{}, errors.New("decode batch: empty entry")
	}
	if data[0] != batchVersion {
		return Batch{}, fmt.Errorf("decode batch: version %d: %w (this release reads version %d)", data[0], ErrVersion, batchVersion)
	}
	b, err := decodeBatch(data[1:])
	if err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	return b, nil
}

func decodeBatch(data []byte) (b Batch, err error) {
	var head batchHead
	if data, err = decMode.UnmarshalFirst(data, &head); err != nil {
		return b, err
	}
	if head.Commands > MaxCommands {
		return b, fmt.Errorf("%d commands; at most %d are allowed", head.Commands, MaxCommands)
	}
	b.Epoch, b.LeaseMS = head.Epoch, head.LeaseMS
	if n := min(int(head.Commands), len(data)/leastCommand); n > 0 { // the head may promise more than there is
		b.Commands = make([]Command, 0, n)
	}
	for i := range head.Commands {
		var c Command
		if data, err = c.decode(data); err != nil {
			return b, fmt.Errorf("command %d: %w", i, err)
		}
		b.Commands = append(b.Commands, c)
	}
	if len(data) > 0 {
		return b, fmt.Errorf("%d extraneous bytes behind the last command", len(data))
	}
	return b, nil
}

// leastCommand is the size of the smallest encoded command, in bytes.
const leastCommand = 5

func (c *Command) decode(data []byte) (rest []byte, err error) {
	var head commandHead
	if rest, err = decMode.UnmarshalFirst(data, &head); err != nil {
		return nil, err
	}
	c.Time, c.Caller = head.Time, head.Caller
	if !head.Kind.known() {
		return nil, fmt.Errorf("%v: %w", head.Kind, ErrVersion)
	}
	if c.Operation, rest, err = operations[head.Kind].decode(rest); err != nil {
		return nil, err
	}
	return rest, readable(c.Operation)
}

// readable fails with ErrVersion if an operation has a value that this release
// does not define. Releases that handled it differently would diverge.
func readable(op Operation) error {
	if v, ok := op.(interface{ unknown() string }); ok {
		if what := v.unknown(); what != "" {
			return fmt.Errorf("%v has %s: %w", op.kind(), what, ErrVersion)
		}
	}
	return nil
}

// Size estimates the encoded size of the batch in bytes.
func (b *Batch) Size() int {
	n := 32
	for i := range b.Commands {
		n += b.Commands[i].Size()
	}
	return n
}

// Size returns an upper estimate of the command's encoded size in bytes.
func (c *Command) Size() int {
	if c.Operation == nil {
		return 0
	}
	return 32 + len(c.Caller) + c.size()
}
