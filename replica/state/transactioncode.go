package state

import (
	"bytes"
	"errors"
	"fmt"
)

// A transaction is encoded as a CBOR sequence: its head, its conditions and its
// steps, each a number and a body. The raw content of a file follows the body
// of the step that writes it. So the bytes written to disk and sent are never
// converted, and a large content in the state aliases the bytes of the entry.

// The numbers of conditions and steps are written to disk and never reused.
var (
	conditions = map[uint8]func() Condition{
		1: func() Condition { return new(FileAt) },
		2: func() Condition { return new(FileExists) },
		3: func() Condition { return new(GrantHeld) },
		4: func() Condition { return new(SessionLives) },
		5: func() Condition { return new(LockFree) },
	}
	steps = map[uint8]func() Step{
		1: func() Step { return new(Write) },
		2: func() Step { return new(Delete) },
		3: func() Step { return new(DeleteBelow) },
		4: func() Step { return new(Get) },
		5: func() Step { return new(Take) },
		6: func() Step { return new(Free) },
	}
)

func conditionNumber(c Condition) uint8 {
	switch c.(type) {
	case *FileAt:
		return 1
	case *FileExists:
		return 2
	case *GrantHeld:
		return 3
	case *SessionLives:
		return 4
	case *LockFree:
		return 5
	}
	return 0
}

func stepNumber(s Step) uint8 {
	switch s.(type) {
	case *Write:
		return 1
	case *Delete:
		return 2
	case *DeleteBelow:
		return 3
	case *Get:
		return 4
	case *Take:
		return 5
	case *Free:
		return 6
	}
	return 0
}

// MaxSteps bounds the conditions, guards and steps of a transaction together.
const MaxSteps = 1 << 10

// aliased is the smallest size in bytes at which a content aliases its entry
// instead of being copied. An aliased content keeps the whole entry in memory,
// so it must be a good part of the largest entry. Otherwise a client could
// write many files at once, then all but one again, and use far more memory
// than its quota counts.
const aliased = 128 << 10

type transactionHead struct {
	_       struct{} `cbor:",toarray"`
	Session string
	Key     string
	Digest  []byte
	Guards  []Sequencer
	If      uint64
	Then    uint64
	Else    uint64
}

// encode writes the transaction after its command's head.
func (op *Transaction) encode(out *bytes.Buffer) error {
	err := encMode.MarshalToBuffer(transactionHead{Session: op.Session, Key: op.Key, Digest: op.Digest, Guards: op.Guards,
		If: uint64(len(op.If)), Then: uint64(len(op.Then)), Else: uint64(len(op.Else))}, out)
	for _, c := range op.If {
		err = errors.Join(err, encodePart(out, conditionNumber(c), 0, c))
	}
	for _, branch := range [][]Step{op.Then, op.Else} {
		for _, s := range branch {
			w, writes := s.(*Write)
			if !writes {
				err = errors.Join(err, encodePart(out, stepNumber(s), 0, s))
				continue
			}
			err = errors.Join(err, encodePart(out, stepNumber(s), len(w.Content), s))
			out.Write(w.Content)
		}
	}
	return err
}

// part is the head of a condition or a step, followed by that many bytes of
// content.
type part struct {
	_       struct{} `cbor:",toarray"`
	Number  uint8
	Content uint64
}

func encodePart(out *bytes.Buffer, number uint8, content int, body any) error {
	if number == 0 {
		return fmt.Errorf("%T: %w", body, ErrVersion)
	}
	if err := encMode.MarshalToBuffer(part{Number: number, Content: uint64(content)}, out); err != nil {
		return err
	}
	return encMode.MarshalToBuffer(body, out)
}

func decodeTransaction(data []byte) (Operation, []byte, error) {
	op := new(Transaction)
	var head transactionHead
	rest, err := decMode.UnmarshalFirst(data, &head)
	if err != nil {
		return op, nil, err
	}
	if n := uint64(len(head.Guards)) + head.If + head.Then + head.Else; n > MaxSteps || max(head.If, head.Then, head.Else) > MaxSteps {
		return op, nil, fmt.Errorf("a transaction of more than %d parts", MaxSteps)
	}
	op.Session, op.Key, op.Digest, op.Guards = head.Session, head.Key, head.Digest, head.Guards
	for range head.If {
		var c Condition
		if c, _, rest, err = decodePart(rest, conditions); err != nil {
			return op, nil, err
		}
		op.If = append(op.If, c)
	}
	if op.Then, rest, err = decodeSteps(rest, head.Then); err != nil {
		return op, nil, err
	}
	op.Else, rest, err = decodeSteps(rest, head.Else)
	return op, rest, err
}

func decodeSteps(data []byte, n uint64) (all []Step, rest []byte, err error) {
	rest = data
	for range n {
		var s Step
		var content []byte
		if s, content, rest, err = decodePart(rest, steps); err != nil {
			return nil, nil, err
		}
		if w, writes := s.(*Write); writes {
			w.Content = content
		} else if content != nil {
			return nil, nil, fmt.Errorf("%T has a content", s)
		}
		all = append(all, s)
	}
	return all, rest, nil
}

// decodePart reads a condition or a step and its content.
func decodePart[P any](data []byte, known map[uint8]func() P) (p P, content, rest []byte, err error) {
	var head part
	if rest, err = decMode.UnmarshalFirst(data, &head); err != nil {
		return p, nil, nil, err
	}
	fresh, ok := known[head.Number]
	if !ok {
		return p, nil, nil, fmt.Errorf("%T of number %d: %w", p, head.Number, ErrVersion)
	}
	p = fresh()
	if rest, err = decMode.UnmarshalFirst(rest, p); err != nil {
		return p, nil, nil, err
	}
	if head.Content > uint64(len(rest)) {
		return p, nil, nil, fmt.Errorf("the content should have %d bytes, but only %d are left", head.Content, len(rest))
	}
	if head.Content > 0 {
		content, rest = rest[:head.Content:head.Content], rest[head.Content:]
		if len(content) < aliased {
			content = bytes.Clone(content)
		}
	}
	return p, content, rest, nil
}

func (op *Transaction) size() int {
	n := 96 + len(op.Session) + len(op.Key) + len(op.Digest)
	for _, q := range op.Guards {
		n += 32 + len(q.Path)
	}
	for _, c := range op.If {
		n += 16 + c.size()
	}
	for _, branch := range [][]Step{op.Then, op.Else} {
		for _, s := range branch {
			n += 16 + s.size()
		}
	}
	return n
}
