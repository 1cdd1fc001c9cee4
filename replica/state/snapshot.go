package state

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/stoutlock/stout/replica/state/access"
)

// snapshotMagic begins every snapshot; its last byte is the format version.
var snapshotMagic = []byte("stout-state\x03")

// preamble follows the magic: the header and the number of each kind of record.
type preamble struct {
	Header   header `cbor:"1,keyasint"`
	Sessions uint64 `cbor:"2,keyasint"`
	Nodes    uint64 `cbor:"3,keyasint"`
	Holds    uint64 `cbor:"4,keyasint"`
	Waits    uint64 `cbor:"5,keyasint"`
	Answers  uint64 `cbor:"6,keyasint"` // sessions with remembered answers
	// These are omitted if empty, as they were before levelAccess.
	Cell   access.CellRules `cbor:"7,keyasint,omitempty"`
	Rules  uint64           `cbor:"8,keyasint,omitempty"`
	Groups uint64           `cbor:"9,keyasint,omitempty"`
	Tokens uint64           `cbor:"10,keyasint,omitempty"`
	Quotas uint64           `cbor:"11,keyasint,omitempty"` // from levelQuotas
}

// nodeRecord is the part of a Node that does not follow from its holds and
// waits.
type nodeRecord struct {
	Path    string `cbor:"1,keyasint"`
	DelayID uint64 `cbor:"2,keyasint,omitempty"`
	DelayMS int64  `cbor:"3,keyasint,omitempty"`
	File    *File  `cbor:"4,keyasint,omitempty"`
}

// answersRecord is the encoded form of a session's answers, oldest first.
type answersRecord struct {
	_       struct{} `cbor:",toarray"`
	Session string
	List    []*Answer
}

// Snapshot writes the state: the magic, then a sequence of CBOR items
// (preamble, sessions, nodes, holds, waits, answers, rules, groups, tokens,
// quotas, each in key order). Equal states write equal bytes.
func (s *State) Snapshot(w io.Writer) error {
	buf := bufio.NewWriterSize(w, 64<<10)
	err := s.write(buf)
	if err == nil {
		err = buf.Flush()
	}
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

func (s *State) write(w io.Writer) error {
	if _, err := w.Write(snapshotMagic); err != nil {
		return err
	}
	enc := encMode.NewEncoder(w)
	err := enc.Encode(preamble{Header: s.header, Sessions: uint64(s.sessions.Len()), Nodes: uint64(s.nodes.Len()),
		Holds: uint64(s.holds.Len()), Waits: uint64(s.queue.Len()), Answers: uint64(s.answers.Len()),
		Cell: s.policy.Cell(), Rules: uint64(s.policy.RuleCount()), Groups: uint64(s.policy.GroupCount()), Tokens: uint64(s.tokens.Len()),
		Quotas: uint64(s.policy.QuotaCount())})
	put := func(v any) bool {
		if err == nil {
			err = enc.Encode(v)
		}
		return err == nil
	}
	s.Sessions("")(func(v *Session) bool { return put(v) })
	s.nodes.All()(func(v *Node) bool { return put(nodeRecord{v.Path, v.DelayID, v.DelayMS, v.File}) })
	s.Holds()(func(v *Hold) bool { return put(v) })
	s.Waits()(func(v *Wait) bool { return put(v.stored()) })
	s.answers.All()(func(v *Answers) bool { return put(answersRecord{Session: v.session, List: slices.Collect(v.All())}) })
	s.policy.Rules("", "")(func(v *access.Rule) bool { return put(v) })
	s.policy.Groups("")(func(v *access.Members) bool { return put(v) })
	s.tokens.All()(func(v *Token) bool { return put(v) })
	s.policy.Quotas("")(func(v *access.Quota) bool { return put(v) })
	return err
}

// Restore reads what Snapshot wrote. It fails with ErrVersion on a newer
// format, and with another error on damaged or truncated bytes. It never panics
// and never returns a partial state.
func Restore(r io.Reader) (*State, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(in, magic); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	last := len(magic) - 1
	if !bytes.Equal(magic[:last], snapshotMagic[:last]) {
		return nil, errors.New("read snapshot: this is not a Stout snapshot")
	}
	if magic[last] != snapshotMagic[last] {
		return nil, fmt.Errorf("read snapshot: version %d: %w (this release reads version %d)", magic[last], ErrVersion, snapshotMagic[last])
	}
	s, err := restore(decMode.NewDecoder(in))
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("read snapshot: it contradicts itself: %w", err)
	}
	return s, nil
}

func restore(dec *cbor.Decoder) (*State, error) {
	var p preamble
	if err := dec.Decode(&p); err != nil {
		return nil, err
	}
	if p.Header.Level > Level {
		return nil, fmt.Errorf("the cell has reached level %d; this release knows levels up to %d: %w", p.Header.Level, Level, ErrVersion)
	}
	e := edit(New(), 0)
	e.header = p.Header
	in := &records{dec: dec}
	each(in, p.Sessions, func(v *Session) []byte { return []byte(v.ID) }, func(v *Session) {
		e.sessions.Put(v.ID, v)
		if v.Key != "" {
			e.keys.Put(v.Key, v)
		}
	})
	each(in, p.Nodes, func(v *nodeRecord) []byte { return []byte(v.Path) }, func(v *nodeRecord) {
		n := &Node{Path: v.Path, Lock: Lock{DelayID: v.DelayID, DelayMS: v.DelayMS}, File: v.File}
		e.nodes.Put(v.Path, n)
		if f := v.File; f != nil {
			e.files++
			e.content += int64(len(f.Content))
			if f.Session != "" {
				e.ephemeral.Put(owned{f.Session, f.Path}, f)
			}
		}
	})
	// The nodes are not shared yet, so their counts are filled in place.
	node := func(path string) *Node {
		l, ok := e.nodes.Get(path)
		if !ok {
			l = &Node{Path: path}
			e.nodes.Put(path, l)
		}
		return l
	}
	each(in, p.Holds, func(v *Hold) []byte { return numberedKey(v.Path, v.Token) }, func(v *Hold) {
		l := node(v.Path)
		v.Path = l.Path // share one string per path, as grants and waits do
		e.holds.Put(numbered{v.Path, v.Token}, v)
		e.handles.Put(v.HandleKey(), holdOrWait{hold: v})
		l.Holders, l.Mode = l.Holders+1, v.Mode
		l.count(v.Mode, v.Limit)
	})
	each(in, p.Waits, func(v *Wait) []byte { return numberedKey(v.Path, v.order()) }, func(v *Wait) {
		l := node(v.Path)
		v.Path = l.Path
		e.putWait(v)
		l.Waiters++
		l.count(v.Mode, v.Limit)
	})
	each(in, p.Answers, func(v *answersRecord) []byte { return []byte(v.Session) }, func(v *answersRecord) {
		if n := len(v.List); n == 0 || n > MostAnswers || slices.Contains(v.List, nil) {
			in.err = fmt.Errorf("session %q has %d answers, or an empty one", v.Session, n)
			return
		}
		all := &Answers{session: v.Session}
		for _, a := range v.List {
			all, _ = all.add(a)
		}
		e.answers.Put(v.Session, all)
	})
	e.restoreAccess(in, &p)
	if err := in.end(); err != nil {
		return nil, err
	}
	e.restoreSets()
	for n := range e.nodes.All() {
		if !n.Free() {
			e.locks++
		}
	}
	e.bytes = e.measure()
	if n := uint64(e.nodes.Len()); n != p.Nodes {
		return nil, fmt.Errorf("%d nodes are in use, but the preamble promises %d", n, p.Nodes)
	}
	return e.State, nil
}

// restoreAccess reads the access policy and the tokens. A rule, group or quota
// that the policy would refuse is an error.
func (e *editor) restoreAccess(in *records, p *preamble) {
	if !p.Cell.Sound() {
		in.fail(errors.New("the cell's lists of observers and operators are malformed"))
		return
	}
	e.policy = e.policy.PutCell(p.Cell)
	add := func(sound bool, put func() (*access.Policy, error)) {
		policy, err := e.policy, errors.New("malformed rule, group or quota")
		if sound {
			policy, err = put()
		}
		if err != nil {
			in.fail(err)
			return
		}
		e.policy = policy
	}
	each(in, p.Rules, func(v *access.Rule) []byte { return []byte(v.Path) }, func(v *access.Rule) {
		add(v.Sound(), func() (*access.Policy, error) { return e.policy.PutRule(v) })
	})
	each(in, p.Groups, func(v *access.Members) []byte { return []byte(v.Group) }, func(v *access.Members) {
		add(v.Sound(), func() (*access.Policy, error) { return e.policy.PutGroup(v) })
	})
	each(in, p.Tokens, func(v *Token) []byte { return []byte(v.ID) }, e.putToken)
	each(in, p.Quotas, func(v *access.Quota) []byte { return []byte(v.Of) }, func(v *access.Quota) {
		add(v.Sound(), func() (*access.Policy, error) { return e.policy.PutQuota(v) })
	})
}

// numberedKey returns the key of the n-th thing at a path, as bytes. NUL sorts
// before every byte that a path can hold.
func numberedKey(path string, n uint64) []byte {
	k := make([]byte, 0, len(path)+9)
	k = append(append(k, path...), 0)
	return binary.BigEndian.AppendUint64(k, n)
}

// count adds one holder or waiter to l.
func (l *Lock) count(mode Mode, limit int64) {
	if mode == Shared {
		l.shared++
		l.Limit = limit
	}
}

// records reads the records after the preamble, up to the first error.
type records struct {
	dec *cbor.Decoder
	err error
}

// each reads n records of one type and checks that they are in key order.
func each[V any](in *records, n uint64, key func(*V) []byte, add func(*V)) {
	if in.err != nil {
		return
	}
	var last []byte
	for range n {
		v := new(V)
		if in.err = in.dec.Decode(v); in.err != nil {
			return
		}
		k := key(v)
		if bytes.Compare(last, k) >= 0 {
			in.err = fmt.Errorf("%T %q is out of order after %q", *v, k, last)
			return
		}
		if add(v); in.err != nil {
			return
		}
		last = k
	}
}

// fail ends reading, unless it has ended.
func (in *records) fail(err error) {
	if in.err == nil {
		in.err = err
	}
}

// end returns the error of the reading, if any. Bytes after the last record are
// an error.
func (in *records) end() error {
	if in.err != nil {
		return in.err
	}
	switch err := in.dec.Skip(); {
	case err == nil:
		return errors.New("there are bytes after the last record")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("after the last record: %w", err)
	}
	return nil
}

// Hash returns the SHA-256 of the snapshot. It is equal on replicas that
// applied the same log.
func (s *State) Hash() [sha256.Size]byte {
	h := sha256.New()
	if err := s.write(h); err != nil {
		panic(err) // a hash cannot fail, and every state can be encoded
	}
	return [sha256.Size]byte(h.Sum(nil))
}
