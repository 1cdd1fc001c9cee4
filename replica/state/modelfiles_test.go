package state_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state"
)

// modelAnswer is one that is remembered.
type modelAnswer struct {
	session, key string
	digest       []byte
	result       state.TransactionResult
}

// copied is the model as it is, which later changes leave alone.
func (m *model) copied() model {
	now := *m
	now.files, now.locks = maps.Clone(m.files), map[string]*modelLock{}
	for path, l := range m.locks {
		same := *l
		same.holders, same.queue = slices.Clone(l.holders), slices.Clone(l.queue)
		now.locks[path] = &same
	}
	now.changes = slices.Clone(m.changes)
	return now
}

func (m *model) transaction(op *state.Transaction) state.Result {
	if op.Session != "" && m.session(op.Session) == nil {
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
	told := state.Answered{Session: op.Session, Answer: &state.Answer{Key: op.Key, Digest: op.Digest, Result: r}}
	m.answers = append(slices.Clone(m.answers), modelAnswer{op.Session, op.Key, op.Digest, r})
	if own := m.answersOf(op.Session); len(own) > 128 {
		first := own[0]
		m.answers = slices.DeleteFunc(m.answers, func(a modelAnswer) bool { return a.session == op.Session && a.key == first.key })
		told.Forgotten = &state.Answer{Key: first.key, Digest: first.digest, Result: first.result}
	}
	m.emit(told)
	return r
}

func (m *model) answersOf(session string) []modelAnswer {
	return slices.DeleteFunc(slices.Clone(m.answers), func(a modelAnswer) bool { return a.session != session })
}

func (m *model) held(q state.Sequencer) bool {
	for _, h := range m.lock(q.Path).holders {
		if h.Token == q.Token && h.Mode == q.Mode {
			return true
		}
	}
	return false
}

func (m *model) decideAll(op *state.Transaction) state.TransactionResult {
	for _, q := range op.Guards {
		if !m.held(q) {
			return state.TransactionResult{Verdict: state.NotHeld, Guard: &q, Revision: m.revision}
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
				failure.Lock = m.standing(take.Path)
			}
			if f := failure.Current; f != nil {
				failure.Current = m.files[f.Path] // what was done before it has not been
				if w, ok := s.(*state.Write); ok && w.Tell && failure.Current != nil {
					failure.Whole = true
				} else {
					failure.Current = without(failure.Current)
				}
			}
			return state.TransactionResult{Verdict: state.Failed, Succeeded: r.Succeeded, Failure: failure, Revision: m.revision}
		}
		r.Steps = append(r.Steps, done)
	}
	r.Revision = m.revision
	return r
}

func (m *model) standing(path string) *state.Standing {
	l := m.lock(path)
	out := &state.Standing{Held: len(l.holders), Waiters: len(l.queue), DelayMS: l.delayMS}
	for _, h := range l.holders {
		out.Holders = append(out.Holders, state.Holding{Session: h.Session, Name: m.session(h.Session).Name, Handle: h.Handle,
			Mode: h.Mode, Token: h.Token, GrantedAt: h.GrantedAt, Principal: m.session(h.Session).Principal})
	}
	return out
}

func (m *model) holds(c state.Condition) bool {
	switch c := c.(type) {
	case *state.FileAt:
		return m.files[c.Path] != nil && m.files[c.Path].Revision == c.Revision
	case *state.FileExists:
		return (m.files[c.Path] != nil) == c.Exists
	case *state.GrantHeld:
		return m.held(c.Sequencer)
	case *state.SessionLives:
		return m.session(c.Session) != nil
	case *state.LockFree:
		l := m.lock(c.Path)
		return len(l.holders)+len(l.queue) == 0 && l.delayID == 0
	}
	panic("the model does not know the condition")
}

// without is a file without its content.
func without(f *state.File) *state.File {
	if f == nil {
		return nil
	}
	s := *f
	s.Content = nil
	return &s
}

func (m *model) step(s state.Step, session string) (state.StepResult, *state.Failure) {
	switch s := s.(type) {
	case *state.Write:
		return m.write(s, session)
	case *state.Delete:
		f := m.files[s.Path]
		switch {
		case s.When == state.IfRevision && (f == nil || f.Revision != s.Revision):
			return state.StepResult{}, &state.Failure{Why: state.Failed, Current: without(f)}
		case f == nil:
			return state.StepResult{}, nil
		}
		m.deleteFile(f, state.Deleted)
		return state.StepResult{Deleted: 1, Revision: m.revision}, nil
	case *state.DeleteBelow:
		r := state.StepResult{}
		for _, path := range slices.Sorted(maps.Keys(m.files)) {
			if strings.HasPrefix(path, s.Prefix) {
				m.deleteFile(m.files[path], state.Deleted)
				r.Deleted, r.Revision = r.Deleted+1, m.revision
			}
		}
		return r, nil
	case *state.Get:
		return state.StepResult{File: m.files[s.Path]}, nil
	case *state.Take:
		r := m.acquire(&state.Acquire{Session: session, Path: s.Path, Handle: s.Handle, Mode: s.Mode, Limit: s.Limit, DelayMS: s.DelayMS}).(state.AcquireResult)
		if r.Verdict != state.Held {
			return state.StepResult{}, &state.Failure{Why: r.Verdict, Clash: r.Clash}
		}
		return state.StepResult{Hold: r.Hold}, nil
	case *state.Free:
		r := m.release(&state.Release{Session: session, Path: s.Path, Handle: s.Handle, Token: s.Token})
		return state.StepResult{Freed: r == state.Done}, nil
	}
	panic("the model does not know the step")
}

func (m *model) write(w *state.Write, session string) (state.StepResult, *state.Failure) {
	path := w.Path
	if w.Sequential {
		path = fmt.Sprintf("%s%016d", path, m.revision+1)
	}
	old := m.files[path]
	if w.Sequential && old != nil || w.When == state.IfAbsent && old != nil ||
		w.When == state.IfRevision && (old == nil || old.Revision != w.Revision) {
		return state.StepResult{}, &state.Failure{Why: state.Failed, Current: without(old)}
	}
	revision := m.number()
	f := &state.File{Path: path, Content: w.Content, Sum: w.Sum, Size: len(w.Content), Revision: revision, Instance: revision, Generation: 1, CreatedAt: m.now, ModifiedAt: m.now, Principal: m.caller}
	if old != nil {
		f.Instance, f.Generation, f.CreatedAt, f.Session = old.Instance, old.Generation+1, old.CreatedAt, old.Session
	}
	if w.Owner == state.Permanent {
		f.Session = ""
	}
	if w.Owner == state.OwnedBy {
		f.Session = session
	}
	m.files[path] = f
	m.emit(state.FileChanged{File: f})
	return state.StepResult{File: without(f)}, nil
}

func (m *model) deleteFile(f *state.File, why state.Reason) {
	delete(m.files, f.Path)
	m.emit(state.FileDeleted{Revision: m.number(), File: f, Reason: why})
}

// endFiles is what the end of a session does to its files and answers.
func (m *model) endFiles(session string, why state.Reason) {
	for _, path := range slices.Sorted(maps.Keys(m.files)) {
		if m.files[path].Session == session {
			m.deleteFile(m.files[path], why)
		}
	}
	m.answers = slices.DeleteFunc(slices.Clone(m.answers), func(a modelAnswer) bool { return a.session == session })
}

var someFiles = []string{"/a", "/a/b", "/a/b/c", "/ab"} // some are locks, too

func (r *run) transaction(t *rapid.T) state.Operation {
	op := &state.Transaction{}
	if rapid.Bool().Draw(t, "with session") {
		op.Session = drawSession(t)
		if rapid.Bool().Draw(t, "keyed") {
			op.Key, op.Digest = rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"), []byte{rapid.Byte().Draw(t, "digest") % 2}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "guarded") == 0 {
		op.Guards = []state.Sequencer{r.sequencer(t)}
	}
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		op.If = append(op.If, r.condition(t))
	}
	for range rapid.IntRange(0, 4).Draw(t, "then") {
		op.Then = append(op.Then, r.step(t, op.Session != ""))
	}
	for range rapid.IntRange(0, 2).Draw(t, "else") {
		op.Else = append(op.Else, r.step(t, op.Session != ""))
	}
	return op
}

// sequencer names a grant that is held, most of the time.
func (r *run) sequencer(t *rapid.T) state.Sequencer {
	path := drawPath(t)
	if held := r.model.lock(path).holders; len(held) > 0 && rapid.IntRange(0, 3).Draw(t, "right grant") > 0 {
		return state.Sequencer{Mode: held[0].Mode, Token: held[0].Token, Path: path}
	}
	return state.Sequencer{Mode: state.Exclusive, Token: rapid.Uint64Range(0, r.model.counter).Draw(t, "token"), Path: path}
}

// revisionOf is that of a file, most of the time.
func (r *run) revisionOf(t *rapid.T, path string) uint64 {
	if f := r.model.files[path]; f != nil && rapid.IntRange(0, 3).Draw(t, "right revision") > 0 {
		return f.Revision
	}
	return rapid.Uint64Range(0, r.model.revision).Draw(t, "revision")
}

func (r *run) condition(t *rapid.T) state.Condition {
	path := rapid.SampledFrom(someFiles).Draw(t, "file")
	switch rapid.IntRange(0, 4).Draw(t, "condition") {
	case 0:
		return &state.FileAt{Path: path, Revision: r.revisionOf(t, path)}
	case 1:
		return &state.FileExists{Path: path, Exists: rapid.Bool().Draw(t, "exists")}
	case 2:
		return &state.GrantHeld{Sequencer: r.sequencer(t)}
	case 3:
		return &state.SessionLives{Session: drawSession(t)}
	}
	return &state.LockFree{Path: drawPath(t)}
}

func (r *run) step(t *rapid.T, inSession bool) state.Step {
	path := rapid.SampledFrom(someFiles).Draw(t, "file")
	kind := rapid.IntRange(0, 8).Draw(t, "step")
	switch {
	case kind == 0:
		d := &state.Delete{Path: path}
		if rapid.Bool().Draw(t, "by revision") {
			d.When, d.Revision = state.IfRevision, r.revisionOf(t, path)
		}
		return d
	case kind == 1:
		return &state.DeleteBelow{Prefix: rapid.SampledFrom([]string{"/a/", "/a/b/", "/none/"}).Draw(t, "prefix")}
	case kind == 2:
		return &state.Get{Path: path}
	case kind == 3 && inSession:
		return &state.Take{Path: drawPath(t), Handle: drawHandle(t), Mode: rapid.SampledFrom([]state.Mode{state.Exclusive, state.Shared}).Draw(t, "mode")}
	case kind == 4 && inSession:
		return &state.Free{Path: drawPath(t), Handle: drawHandle(t)}
	}
	w := write(path, rapid.SampledFrom([]string{"", "x", "\x00\xff"}).Draw(t, "content"), state.Write{})
	switch rapid.IntRange(0, 5).Draw(t, "write") {
	case 0:
		w.When = state.IfAbsent
	case 1:
		w.When, w.Revision = state.IfRevision, r.revisionOf(t, path)
	case 2:
		w.Sequential = true
	}
	w.Tell = rapid.Bool().Draw(t, "tell")
	w.Owner = rapid.SampledFrom([]state.Owner{state.SameOwner, state.SameOwner, state.Permanent}).Draw(t, "owner")
	if inSession && rapid.Bool().Draw(t, "ephemeral") {
		w.Owner = state.OwnedBy
	}
	return w
}

// checkFiles compares the files and the answers.
func (r *run) checkFiles(t *rapid.T) {
	var want []*state.File
	for _, path := range slices.Sorted(maps.Keys(r.model.files)) {
		want = append(want, r.model.files[path])
		got, _ := r.state.File(path)
		equal(t, "file "+path, got, r.model.files[path])
	}
	equal(t, "files", slices.Collect(r.state.Files("", "")), want)
	equal(t, "number of files", r.state.FileCount(), len(want))
	for _, prefix := range []string{"/a", "/a/", "/ab", "/z"} {
		below := slices.DeleteFunc(slices.Clone(want), func(f *state.File) bool { return !strings.HasPrefix(f.Path, prefix) || f.Path <= "/a" })
		equal(t, "files below "+prefix, slices.Collect(r.state.Files(prefix, "/a")), below)
	}
	for _, id := range someSessions {
		own := slices.DeleteFunc(slices.Clone(want), func(f *state.File) bool { return f.Session != id })
		equal(t, "answers of "+id, r.state.Answers(id).Len(), len(r.model.answersOf(id)))
		equal(t, "ephemeral files of "+id, slices.Collect(r.state.Ephemeral(id)), own)
	}
}
