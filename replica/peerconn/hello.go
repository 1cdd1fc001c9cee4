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

// Kind is the purpose of a connection.
type Kind uint8

// The kinds. Numbers go over the wire.
const (
	Raft Kind = 1 // the library's messages
	Call Kind = 2 // forwarded calls
	Ask  Kind = 3 // a request for a card; the connection ends with the answer
)

func (k Kind) String() string {
	if k >= Raft && k <= Ask {
		return [...]string{"raft", "call", "ask"}[k-1]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Hello is the first message on a connection, from the dialling end.
type Hello struct {
	Kind   Kind   `cbor:"1,keyasint"`
	Cell   string `cbor:"2,keyasint"`           // name of the cell
	CellID string `cbor:"3,keyasint,omitempty"` // empty if the caller has none yet: Ask only
	From   string `cbor:"4,keyasint"`           // server id of the caller
	To     string `cbor:"5,keyasint"`           // server id of the wanted replica; only its name for Ask
}

// reply is the answer to a hello.
type reply struct {
	Refused string `cbor:"1,keyasint,omitempty"` // the reason; the connection then ends
	Info    []byte `cbor:"2,keyasint,omitempty"` // Ask only
}

// ErrRefused reports that the other end answered and refused: it is not the
// wanted one, or has too many connections.
var ErrRefused = errors.New("refused")

const (
	// magic is the start of a hello: a name and a version of the format.
	magic = "stout-replica-1\n"
	// maxFrame bounds a hello and the reply to it.
	maxFrame = 64 << 10
	// helloTimeout bounds the TLS handshake, a hello and the reply together.
	helloTimeout = time.Second
)

// decoding refuses values that a stranger could make large or ambiguous.
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
		return fmt.Errorf("%d bytes do not fit in a frame of %d", len(body), maxFrame)
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
		return errors.New("the caller uses TLS, but this replica has no raft-cert, raft-key and raft-ca")
	}
	if string(start[:len(head)]) != head {
		return errors.New("the data does not come from a Stout replica of this version")
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

// noAnswer is the error of a hello without a reply. Its text is the same each
// time, so that a caller that retries logs it once. Errors of package net
// differ, because they include the connection's own port.
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
		return "the program there does not answer the hello of a connection"
	}
	return "the program there closes connections without answering their hello; is it a Stout replica of this version?"
}

func (e noAnswer) Unwrap() error { return e.err }

// open opens a dialled connection and returns the reply's card. The caller must
// close the connection, even after an error. Its deadline ends with the opening.
func open(c net.Conn, o Hello) ([]byte, error) {
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
	return r.Info, c.SetDeadline(time.Time{})
}
