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
// the last chunk. A search reads tags that are adjacent in memory, and a chunk
// only where a tag matches.
type Answers struct {
	session string
	dropped int // forgotten answers in the first chunk
	total   int // answers in all chunks, with the forgotten ones
	bytes   int64
	chunks  []*chunk
	tags    [MostAnswers + chunkLen]byte // a byte of each answer's hash
}

const chunkLen = 16

// chunk is a run of answers, oldest first.
type chunk struct {
	hashes [chunkLen]uint32
	sizes  [chunkLen]int32 // Answer.Bytes of each
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
	size := one.Bytes()
	next = new(Answers)
	*next = *a
	next.bytes += size
	next.chunks = append(make([]*chunk, 0, len(a.chunks)+1), a.chunks...)
	if a.Len() == MostAnswers {
		first := *a.chunks[0]
		forgotten, first.list[a.dropped] = first.list[a.dropped], nil
		next.chunks[0] = &first
		next.bytes -= int64(first.sizes[a.dropped])
		if next.dropped++; next.dropped == chunkLen {
			next.dropped, next.chunks, next.total = 0, next.chunks[1:], next.total-chunkLen
			copy(next.tags[:], a.tags[chunkLen:])
		}
	}
	at := next.total / chunkLen
	if at == len(next.chunks) {
		next.chunks = append(next.chunks, new(chunk))
	} else {
		last := *next.chunks[at]
		next.chunks[at] = &last
	}
	last, i, hash := next.chunks[at], next.total%chunkLen, hashOf(one.Key)
	last.hashes[i], last.sizes[i], last.list[i] = hash, int32(size), one
	next.tags[next.total] = byte(hash)
	next.total++
	return next, forgotten
}

// Len returns the number of answers. It is 0 for a nil list.
func (a *Answers) Len() int {
	if a == nil {
		return 0
	}
	return a.total - a.dropped
}

// OldestBytes returns Answer.Bytes of the oldest answer. There must be one.
func (a *Answers) OldestBytes() int64 { return int64(a.chunks[0].sizes[a.dropped]) }

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
	hash := hashOf(key)
	for from := a.dropped; ; from++ {
		i := bytes.IndexByte(a.tags[from:a.total], byte(hash))
		if i < 0 {
			return nil, false
		}
		from += i
		if c := a.chunks[from/chunkLen]; c.hashes[from%chunkLen] == hash && c.list[from%chunkLen].Key == key {
			return c.list[from%chunkLen], true
		}
	}
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
