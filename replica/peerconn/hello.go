package peerconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Kind says what a connection is for.
type Kind uint8

// The kinds. Numbers go over the wire.
const (
	Raft Kind = 1 // the library's messages
	Call Kind = 2 // calls that are forwarded
	Ask  Kind = 3 // for a card; it ends with the answer
)

func (k Kind) String() string {
	if k >= Raft && k <= Ask {
		return [...]string{"raft", "call", "ask"}[k-1]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Hello is what whoever dials says first.
type Hello struct {
	Kind   Kind   `cbor:"1,keyasint"`
	Cell   string `cbor:"2,keyasint"`           // name of the cell
	CellID string `cbor:"3,keyasint,omitempty"` // empty where the caller has none yet: Ask only
	From   string `cbor:"4,keyasint"`           // server id of the caller
	To     string `cbor:"5,keyasint"`           // server id that is wanted; the name alone for Ask
}

// reply is what the other end says to it.
type reply struct {
	Refused string `cbor:"1,keyasint,omitempty"` // why; nothing more is said then
	Card    []byte `cbor:"2,keyasint,omitempty"` // Ask only
}

// ErrRefused says that the other end answered, and is not what was wanted, or
// has no room.
var ErrRefused = errors.New("refused")

const (
	// magic is the first of a hello: a name and a version of the format.
	magic = "stout-replica-1\n"
	// maxFrame bounds a hello and the reply to it.
	maxFrame = 64 << 10
	// helloTimeout is what a handshake of TLS, a hello and the reply may take
	// together.
	helloTimeout = time.Second
)

// decoding refuses what a stranger could make large or ambiguous.
var decoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxArrayElements: 1024, MaxMapPairs: 64, MaxNestedLevels: 8,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// writeFrame writes a value behind its length.
func writeFrame(w io.Writer, head string, v any) error {
	body, err := cbor.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("%d bytes are more than a frame of %d holds", len(body), maxFrame)
	}
	frame := binary.BigEndian.AppendUint32([]byte(head), uint32(len(body)))
	_, err = w.Write(append(frame, body...))
	return err
}

// readFrame reads a value that writeFrame wrote, and not a byte behind it.
func readFrame(r io.Reader, head string, v any) error {
	start := make([]byte, len(head)+4)
	if _, err := io.ReadFull(r, start); err != nil {
		return err
	}
	if start[0] == 22 && start[1] == 3 { // a handshake of TLS
		return errors.New("the caller speaks TLS, and this replica has none of raft-cert, raft-key and raft-ca")
	}
	if string(start[:len(head)]) != head {
		return errors.New("these are not the bytes of a Stout replica of this version")
	}
	n := binary.BigEndian.Uint32(start[len(head):])
	if n > maxFrame {
		return fmt.Errorf("a frame of %d bytes is more than %d", n, maxFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return decoding.Unmarshal(body, v)
}

// noAnswer says that a hello got none. Its words are the same each time, so
// that who tries again and again says so once: those of package net have the
// connection's own port in them.
type noAnswer struct{ err error }

func (e noAnswer) Is(target error) bool {
	_, rejected := rejection(e.err)
	return rejected && target == ErrTrust
}

func (e noAnswer) Error() string {
	if rejected, ok := rejection(e.err); ok {
		return rejected
	}
	if t := net.Error(nil); errors.As(e.err, &t) && t.Timeout() {
		return "what listens there does not answer the hello of a connection"
	}
	return "what listens there ends connections without an answer to their hello; is it a Stout replica of this version?"
}

func (e noAnswer) Unwrap() error { return e.err }

// open opens a connection that was dialled and returns the reply's card. The
// connection is the caller's to close, also on an error.
func open(c net.Conn, o Hello, deadline time.Time) ([]byte, error) {
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if err := writeFrame(c, magic, o); err != nil {
		return nil, noAnswer{err}
	}
	var r reply
	if err := readFrame(c, magic, &r); err != nil {
		return nil, noAnswer{err}
	}
	if r.Refused != "" {
		return nil, fmt.Errorf("%w: %s", ErrRefused, r.Refused)
	}
	return r.Card, c.SetDeadline(time.Time{})
}
