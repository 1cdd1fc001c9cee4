package state

// Estimates of the memory that things take on the master, in state and office
// together, in bytes. TestMemoryEstimates of package master measures them.
const (
	sessionBytes  = 400
	keyBytes      = 50  // of an idempotency key, plus its length
	metaBytes     = 350 // of metadata, if there is any
	metaPairBytes = 50  // of each name and value in it
	handleBytes   = 300
	lossBytes     = 200 // less than handleBytes: a loss takes no more than the hold did
	delayBytes    = 300
	fileBytes     = 350 // besides its content
	answerBytes   = 200 // of a remembered answer, besides its key
	resultBytes   = 180 // of each file and grant in the answer, besides paths and content
	stepBytes     = 32  // of any other step
	holderBytes   = 100 // of each listed holder, besides its name and handle
)

// Bytes estimates the memory of sessions, holds, queue positions, lock-delays,
// files, remembered answers, rules, groups and quotas.
func (s *State) Bytes() int64 { return s.bytes + s.policy.Size() }

// Bytes estimates the memory of the session, without its holds, waits and answers.
func (op *OpenSession) Bytes() int64 { return bytesOfSession(op.Name, op.Key, op.Meta) }

// OwnBytes is Bytes without the session's losses, which other callers cause by
// forced releases.
func (v *Session) OwnBytes() int64 { return bytesOfSession(v.Name, v.Key, v.Meta) }

// Bytes estimates the memory of the session, without its holds, waits and answers.
func (v *Session) Bytes() int64 {
	n := v.OwnBytes()
	for _, l := range v.Losses {
		n += int64(lossBytes + len(l.Path) + len(l.Handle))
	}
	return n
}

func bytesOfSession(name, key string, meta map[string]string) int64 {
	n := sessionBytes + len(name)
	if key != "" {
		n += keyBytes + len(key)
	}
	if len(meta) > 0 {
		n += metaBytes
	}
	for k, v := range meta {
		n += metaPairBytes + len(k) + len(v)
	}
	return int64(n)
}

// BytesOfHandle estimates the memory of a hold or a queue position.
func BytesOfHandle(path, handle string) int64 { return int64(handleBytes + len(path) + len(handle)) }

// BytesOfFile estimates the memory of a file.
func BytesOfFile(path string, content int) int64 { return int64(fileBytes + len(path) + content) }

func bytesOfDelay(path string) int64 { return int64(delayBytes + len(path)) }

// Bytes estimates the memory of the answers.
func (a *Answers) Bytes() int64 {
	if a == nil {
		return 0
	}
	return a.bytes
}

// Bytes estimates the memory of the answer. It counts what the answer shares
// with the state, because the answer may outlive the rest.
func (a *Answer) Bytes() int64 {
	n, r := answerBytes+len(a.Key), &a.Result
	for _, s := range r.Steps {
		switch {
		case s.File != nil:
			n += bytesOfResult(s.File.Path, len(s.File.Content))
		case s.Hold != nil:
			n += bytesOfResult(s.Hold.Path, len(s.Hold.Handle))
		default:
			n += stepBytes
		}
	}
	if r.Guard != nil {
		n += bytesOfResult(r.Guard.Path, 0)
	}
	if f := r.Failure; f != nil && f.Current != nil {
		n += bytesOfResult(f.Current.Path, len(f.Current.Content))
	}
	if f := r.Failure; f != nil && f.Lock != nil {
		n += resultBytes
		for _, h := range f.Lock.Holders {
			n += holderBytes + len(h.Name) + len(h.Handle)
		}
	}
	return int64(n)
}

func bytesOfResult(path string, more int) int { return resultBytes + len(path) + more }

// AnswerAtMost bounds the memory of the answer to a keyed transaction, for any
// state in which the transaction is applied. An answer with contents or holders
// may be as long as the longest that is remembered.
func (op *Transaction) AnswerAtMost() int64 {
	most := 0
	for _, q := range op.Guards {
		most = max(most, bytesOfResult(q.Path, 0))
	}
	for _, branch := range [][]Step{op.Then, op.Else} {
		all := 0
		for _, step := range branch {
			switch step := step.(type) {
			case *Write:
				all += bytesOfResult(step.Path, SequenceDigits)
				if step.WithContent {
					all += maxAnswer
				}
			case *Delete:
				all += bytesOfResult(step.Path, 0)
			case *Get, *Take:
				all += maxAnswer
			default:
				all += stepBytes
			}
		}
		most = max(most, min(all, maxAnswer+len(branch)*stepBytes))
	}
	return int64(answerBytes + len(op.Key) + most)
}

// measure returns what Bytes counts, except the policy, by walking the state.
func (s *State) measure() (n int64) {
	for v := range s.Sessions("") {
		n += v.Bytes()
	}
	for c := range s.handles.All() {
		k := c.key()
		n += BytesOfHandle(k.Path, k.Handle)
	}
	for l := range s.nodes.All() {
		n += l.bytes()
	}
	for all := range s.answers.All() {
		for a := range all.All() {
			n += a.Bytes()
		}
	}
	return n
}

// bytes estimates the memory of a node's lock-delay and file.
func (n *Node) bytes() (all int64) {
	if n.DelayID != 0 {
		all = bytesOfDelay(n.Path)
	}
	if n.File != nil {
		all += BytesOfFile(n.Path, len(n.File.Content))
	}
	return all
}
