package model

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// answer is a remembered answer.
type answer struct {
	session, key string
	digest       []byte
	result       state.TransactionResult
}

// copied returns a copy of the model that later changes do not affect.
func (m *Model) copied() Model {
	now := *m
	now.Files, now.Locks = maps.Clone(m.Files), map[string]*Lock{}
	for path, l := range m.Locks {
		same := *l
		same.Holders, same.Queue = slices.Clone(l.Holders), slices.Clone(l.Queue)
		now.Locks[path] = &same
	}
	now.changes = slices.Clone(m.changes)
	return now
}

func (m *Model) transaction(op *state.Transaction) state.Result {
	if op.Session != "" && m.Session(op.Session) == nil {
		return state.TransactionResult{Verdict: state.NoSession}
	}
	if op.Key == "" {
		return m.decideAll(op)
	}
	for _, a := range m.answers {
		if a.session == op.Session && a.key == op.Key {
			if !bytes.Equal(a.digest, op.Digest) {
				return state.TransactionResult{Verdict: state.Conflict}
			}
			again := a.result
			again.Replayed = true
			return again
		}
	}
	r := m.decideAll(op)
	if r.Failure != nil && r.Failure.Why == state.Denied {
		return r // the rights at the time of each call decide
	}
	told := state.Answered{Session: op.Session, Answer: &state.Answer{Key: op.Key, Digest: op.Digest, Result: r}}
	m.answers = append(slices.Clone(m.answers), answer{op.Session, op.Key, op.Digest, r})
	if own := m.Answers(op.Session); len(own) > 128 {
		first := own[0]
		m.answers = slices.DeleteFunc(m.answers, func(a answer) bool { return a.session == op.Session && a.key == first.key })
		told.Forgotten = &state.Answer{Key: first.key, Digest: first.digest, Result: first.result}
	}
	m.emit(told)
	return r
}

// Answers returns the remembered answers of a session, oldest first.
func (m *Model) Answers(session string) []answer {
	return slices.DeleteFunc(slices.Clone(m.answers), func(a answer) bool { return a.session != session })
}

func (m *Model) held(q state.Sequencer) bool {
	for _, h := range m.Lock(q.Path).Holders {
		if h.Token == q.Token && h.Mode == q.Mode {
			return true
		}
	}
	return false
}

func (m *Model) decideAll(op *state.Transaction) state.TransactionResult {
	for _, q := range op.Guards {
		if !m.held(q) {
			return state.TransactionResult{Verdict: state.NotHeld, Guard: &q, Revision: m.Revision}
		}
	}
	r := state.TransactionResult{Verdict: state.Done, Succeeded: true}
	for _, c := range op.If {
		r.Succeeded = r.Succeeded && m.holds(c)
	}
	steps := op.Then
	if !r.Succeeded {
		steps = op.Else
	}
	before := m.copied()
	for i, s := range steps {
		done, failure := m.step(s, op.Session)
		if failure != nil {
			failure.Step = i
			*m = before
			if take, ok := s.(*state.Take); ok {
				failure.Lock = m.lockStatus(take.Path)
			}
			if f := failure.Current; f != nil {
				failure.Current = m.Files[f.Path] // earlier steps of the transaction were undone
				if w, ok := s.(*state.Write); ok && w.WithContent && failure.Current != nil {
					failure.Whole = true
				} else {
					failure.Current = without(failure.Current)
				}
			}
			return state.TransactionResult{Verdict: state.Failed, Succeeded: r.Succeeded, Failure: failure, Revision: m.Revision}
		}
		r.Steps = append(r.Steps, done)
	}
	r.Revision = m.Revision
	return r
}

func (m *Model) lockStatus(path string) *state.LockStatus {
	l := m.Lock(path)
	out := &state.LockStatus{Held: len(l.Holders), Waiters: len(l.Queue), DelayMS: l.DelayMS}
	for _, h := range l.Holders {
		out.Holders = append(out.Holders, state.Holding{Session: h.Session, Name: m.Session(h.Session).Name, Handle: h.Handle,
			Mode: h.Mode, Token: h.Token, GrantedAt: h.GrantedAt, Principal: m.Session(h.Session).Principal})
	}
	return out
}

func (m *Model) holds(c state.Condition) bool {
	switch c := c.(type) {
	case *state.FileAt:
		return m.Files[c.Path] != nil && m.Files[c.Path].Revision == c.Revision
	case *state.FileExists:
		return (m.Files[c.Path] != nil) == c.Exists
	case *state.GrantHeld:
		return m.held(c.Sequencer)
	case *state.SessionLives:
		return m.Session(c.Session) != nil
	case *state.LockFree:
		l := m.Lock(c.Path)
		return len(l.Holders)+len(l.Queue) == 0 && l.DelayID == 0
	}
	panic("the model does not know the condition")
}

// without returns a file without its content.
func without(f *state.File) *state.File {
	if f == nil {
		return nil
	}
	s := *f
	s.Content = nil
	return &s
}

func (m *Model) step(s state.Step, session string) (state.StepResult, *state.Failure) {
	switch s := s.(type) {
	case *state.Write:
		return m.write(s, session)
	case *state.Delete:
		f := m.Files[s.Path]
		switch {
		case s.When == state.IfRevision && (f == nil || f.Revision != s.Revision):
			return state.StepResult{}, &state.Failure{Why: state.Failed, Current: without(f)}
		case f == nil:
			return state.StepResult{}, nil
		}
		m.deleteFile(f, state.Deleted)
		return state.StepResult{Deleted: 1, Revision: m.Revision}, nil
	case *state.DeleteBelow:
		r := state.StepResult{}
		for _, path := range slices.Sorted(maps.Keys(m.Files)) {
			if strings.HasPrefix(path, s.Prefix) {
				m.deleteFile(m.Files[path], state.Deleted)
				r.Deleted, r.Revision = r.Deleted+1, m.Revision
			}
		}
		return r, nil
	case *state.Get:
		return state.StepResult{File: m.Files[s.Path]}, nil
	case *state.Take:
		r := m.acquire(&state.Acquire{Session: session, Path: s.Path, Handle: s.Handle, Mode: s.Mode, Limit: s.Limit, DelayMS: s.DelayMS}).(state.AcquireResult)
		if r.Verdict != state.Held {
			return state.StepResult{}, &state.Failure{Why: r.Verdict, Mismatch: r.Mismatch}
		}
		return state.StepResult{Hold: r.Hold}, nil
	case *state.Free:
		r := m.release(&state.Release{Session: session, Path: s.Path, Handle: s.Handle, Token: s.Token}, state.LostByTransaction)
		return state.StepResult{Freed: r == state.Done}, nil
	}
	panic("the model does not know the step")
}

func (m *Model) write(w *state.Write, session string) (state.StepResult, *state.Failure) {
	path := w.Path
	if w.Sequential {
		path = fmt.Sprintf("%s%016d", path, m.Revision+1)
	}
	if who := w.CheckedFor; who != "" && !m.Access.May(who, access.Write, path) {
		return state.StepResult{}, &state.Failure{Why: state.Denied, Path: path}
	}
	old := m.Files[path]
	if w.Sequential && old != nil || w.When == state.IfAbsent && old != nil ||
		w.When == state.IfRevision && (old == nil || old.Revision != w.Revision) {
		return state.StepResult{}, &state.Failure{Why: state.Failed, Current: without(old)}
	}
	revision := m.number()
	changed := state.FileChanged{}
	f := &state.File{Path: path, Content: w.Content, Sum: w.Sum, Size: len(w.Content), Revision: revision, Instance: revision, Generation: 1, CreatedAt: m.Now, ModifiedAt: m.Now, Principal: m.caller}
	if old != nil {
		f.Instance, f.Generation, f.CreatedAt, f.Session = old.Instance, old.Generation+1, old.CreatedAt, old.Session
		f.Flags, f.Locks = old.Flags, old.Locks
		changed.OldPrincipal, changed.OldSize = old.Principal, old.Size
	}
	if w.Owner == state.Permanent {
		f.Session = ""
	}
	if w.Owner == state.OwnedBy {
		f.Session = session
	}
	m.Files[path] = f
	changed.File, changed.Stat = f, without(f)
	m.emit(changed)
	return state.StepResult{File: without(f)}, nil
}

func (m *Model) deleteFile(f *state.File, why state.Reason) {
	delete(m.Files, f.Path)
	m.emit(state.FileDeleted{Revision: m.number(), File: f, Reason: why, Ending: m.ending()})
}

// endFiles deletes the files and answers of a session that ends.
func (m *Model) endFiles(session string, why state.Reason) {
	for _, path := range slices.Sorted(maps.Keys(m.Files)) {
		if m.Files[path].Session == session {
			m.deleteFile(m.Files[path], why)
		}
	}
	m.answers = slices.DeleteFunc(slices.Clone(m.answers), func(a answer) bool { return a.session == session })
}
