package state

import (
	"bytes"
	"iter"
)

// MostAnswers bounds the answers remembered per session.
const MostAnswers = 128

// Answer is the remembered answer to a keyed call. It is immutable.
type Answer struct {
	Key    string            `cbor:"1,keyasint"`
	Digest []byte            `cbor:"2,keyasint,omitempty"`
	Result TransactionResult `cbor:"3,keyasint"`
}

// Answered reports that a session's answer is remembered.
type Answered struct {
	Session   string
	Answer    *Answer
	Forgotten *Answer // the answer dropped to make room; nil if there was room
}

// again returns the answer to a repetition of the call.
func (a *Answer) again(digest []byte) TransactionResult {
	if !bytes.Equal(a.Digest, digest) {
		return TransactionResult{Verdict: Conflict}
	}
	r := a.Result
	r.Replayed = true
	return r
}

// Answers holds the answers to a session's latest keyed calls. It is immutable.
// Every keyed write searches for its key, usually in vain, and adds an answer.
// The answers are therefore kept in short chunks, and adding one copies only
// the last chunk. A search reads hashes that are adjacent in memory.
type Answers struct {
	session string
	dropped int // forgotten answers in the first chunk
	bytes   int64
	chunks  []*chunk
}

const chunkLen = 16

// chunk is a run of answers, oldest first.
type chunk struct {
	n      int
	hashes [chunkLen]uint32
	list   [chunkLen]*Answer
}

// hashOf returns the FNV-1a hash of a key.
func hashOf(key string) uint32 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return h
}

// add returns a with one more answer. If a is full, the oldest answer is
// dropped.
func (a *Answers) add(one *Answer) (next *Answers, forgotten *Answer) {
	next = &Answers{session: a.session, dropped: a.dropped, bytes: a.bytes + one.Bytes(),
		chunks: make([]*chunk, 0, len(a.chunks)+1)}
	next.chunks = append(next.chunks, a.chunks...)
	if a.Len() == MostAnswers {
		first := *a.chunks[0]
		forgotten, first.list[a.dropped] = first.list[a.dropped], nil
		next.chunks[0] = &first
		next.bytes -= forgotten.Bytes()
		if next.dropped++; next.dropped == chunkLen {
			next.dropped, next.chunks = 0, next.chunks[1:]
		}
	}
	n := len(next.chunks)
	if n == 0 || next.chunks[n-1].n == chunkLen {
		next.chunks = append(next.chunks, new(chunk))
	} else {
		last := *next.chunks[n-1]
		next.chunks[n-1] = &last
	}
	last := next.chunks[len(next.chunks)-1]
	last.hashes[last.n], last.list[last.n] = hashOf(one.Key), one
	last.n++
	return next, forgotten
}

// Len returns the number of answers. It is 0 for a nil list.
func (a *Answers) Len() int {
	if a == nil || len(a.chunks) == 0 {
		return 0
	}
	return (len(a.chunks)-1)*chunkLen + a.chunks[len(a.chunks)-1].n - a.dropped
}

// At returns the i-th oldest answer, counted from 0.
func (a *Answers) At(i int) *Answer {
	i += a.dropped
	return a.chunks[i/chunkLen].list[i%chunkLen]
}

// All yields all answers, oldest first.
func (a *Answers) All() iter.Seq[*Answer] {
	return func(yield func(*Answer) bool) {
		for i := range a.Len() {
			if !yield(a.At(i)) {
				return
			}
		}
	}
}

func (a *Answers) get(key string) (*Answer, bool) {
	hash, from := hashOf(key), a.dropped
	for _, c := range a.chunks {
		for i := from; i < c.n; i++ {
			if c.hashes[i] == hash && c.list[i].Key == key {
				return c.list[i], true
			}
		}
		from = 0
	}
	return nil, false
}

// Answers returns the remembered answers of a session.
func (s *State) Answers(session string) *Answers {
	all, _ := s.answers.Get(session)
	return all
}

// Answer finds the answer remembered under a session's key.
func (s *State) Answer(session, key string) (*Answer, bool) {
	if all, ok := s.answers.Get(session); ok {
		return all.get(key)
	}
	return nil, false
}

// remember keeps an answer, and drops the oldest if there are too many.
func (e *editor) remember(op *Transaction, r TransactionResult) {
	all, ok := e.answers.Get(op.Session)
	if !ok {
		all = &Answers{session: op.Session}
	}
	answered := Answered{Session: op.Session, Answer: &Answer{Key: op.Key, Digest: op.Digest, Result: r}}
	e.bytes -= all.bytes
	all, answered.Forgotten = all.add(answered.Answer)
	e.bytes += all.bytes
	e.answers.Put(op.Session, all)
	e.record(answered)
}
