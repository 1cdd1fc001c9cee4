package state_test

import (
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state"
)

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

// sequencer draws the sequencer of a current grant, most of the time.
func (r *run) sequencer(t *rapid.T) state.Sequencer {
	path := drawPath(t)
	if held := r.model.Lock(path).Holders; len(held) > 0 && rapid.IntRange(0, 3).Draw(t, "right grant") > 0 {
		return state.Sequencer{Mode: held[0].Mode, Token: held[0].Token, Path: path}
	}
	return state.Sequencer{Mode: state.Exclusive, Token: rapid.Uint64Range(0, r.model.Counter).Draw(t, "token"), Path: path}
}

// revisionOf draws a file's current revision, most of the time.
func (r *run) revisionOf(t *rapid.T, path string) uint64 {
	if f := r.model.Files[path]; f != nil && rapid.IntRange(0, 3).Draw(t, "right revision") > 0 {
		return f.Revision
	}
	return rapid.Uint64Range(0, r.model.Revision).Draw(t, "revision")
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
		w.CheckedFor = rapid.SampledFrom([]string{"", "user:a", "user:b", "anonymous"}).Draw(t, "judged")
	}
	w.WithContent = rapid.Bool().Draw(t, "tell")
	w.Owner = rapid.SampledFrom([]state.Owner{state.SameOwner, state.SameOwner, state.Permanent}).Draw(t, "owner")
	if inSession && rapid.Bool().Draw(t, "ephemeral") {
		w.Owner = state.OwnedBy
	}
	return w
}

// checkFiles compares the files and the remembered answers.
func (r *run) checkFiles(t *rapid.T) {
	var want []*state.File
	for _, path := range slices.Sorted(maps.Keys(r.model.Files)) {
		want = append(want, r.model.Files[path])
		got, _ := r.state.File(path)
		equal(t, "file "+path, got, r.model.Files[path])
	}
	equal(t, "files", slices.Collect(r.state.Files("", "")), want)
	equal(t, "number of files", r.state.FileCount(), len(want))
	for _, prefix := range []string{"/a", "/a/", "/ab", "/z"} {
		below := slices.DeleteFunc(slices.Clone(want), func(f *state.File) bool { return !strings.HasPrefix(f.Path, prefix) || f.Path <= "/a" })
		equal(t, "files below "+prefix, slices.Collect(r.state.Files(prefix, "/a")), below)
	}
	for _, id := range someSessions {
		own := slices.DeleteFunc(slices.Clone(want), func(f *state.File) bool { return f.Session != id })
		equal(t, "answers of "+id, r.state.Answers(id).Len(), len(r.model.Answers(id)))
		equal(t, "ephemeral files of "+id, slices.Collect(r.state.Ephemeral(id)), own)
	}
}
