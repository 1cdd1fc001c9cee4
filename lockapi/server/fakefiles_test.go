package server_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// fakeFile is a file of a fake, with its content.
type fakeFile struct {
	stat    lockapi.FileStat
	content []byte
}

// writeCall is how a fake notes a write: what was asked, nothing left out.
func writeCall(w *lockapi.WriteFile) string {
	call := "write " + w.Path
	if w.Sequential {
		call = "sequence " + w.Path
	}
	call += fmt.Sprintf(" %q", w.Content)
	if w.Session != "" {
		call += " session=" + w.Session
	}
	if w.Ephemeral != nil {
		call += fmt.Sprintf(" ephemeral=%v", *w.Ephemeral)
	}
	if w.IfAbsent {
		call += " absent"
	}
	if w.Tell {
		call += " tell"
	}
	return call + conditions(w.IfRevision, w.Sequencers, w.Key)
}

func conditions(revision *uint64, guards []lockapi.Sequencer, key string) (s string) {
	if revision != nil {
		s += fmt.Sprintf(" if=%d", *revision)
	}
	for _, q := range guards {
		s += " " + q.String()
	}
	if key != "" {
		s += " key=" + key
	}
	return s
}

func (f *fakeMaster) WriteFile(ctx context.Context, w *lockapi.WriteFile) (master.FileWritten, error) {
	if err := f.enter(ctx, writeCall(w), false); err != nil {
		return master.FileWritten{}, err
	}
	defer f.mu.Unlock()
	if w.Session != "" {
		if err := f.session(w.Session); err != nil {
			return master.FileWritten{}, err
		}
	}
	path := w.Path
	if w.Sequential {
		path += fmt.Sprintf("%016d", f.revision+1)
	}
	old := f.files[path]
	if err := conditionOf(old, w.IfRevision, w.IfAbsent, w.Tell); err != nil {
		return master.FileWritten{}, err
	}
	f.revision++
	now := time.Now().UTC()
	sum := sha256.Sum256(w.Content)
	next := &fakeFile{lockapi.FileStat{Path: path, Revision: f.revision, Instance: f.revision, Generation: 1, Size: len(w.Content),
		SHA256: hex.EncodeToString(sum[:]), CreatedAt: now, ModifiedAt: now}, w.Content}
	if old != nil {
		next.stat.Instance, next.stat.Generation, next.stat.CreatedAt = old.stat.Instance, old.stat.Generation+1, old.stat.CreatedAt
	}
	if w.Ephemeral != nil && *w.Ephemeral {
		next.stat.Session = w.Session
	}
	f.files[path] = next
	return master.FileWritten{Stat: next.stat, Created: old == nil, Replayed: w.Key == replayedKey}, nil
}

// replayedKey is the key of calls that a fake says it has answered before.
const replayedKey = "again"

func conditionOf(old *fakeFile, revision *uint64, absent, tell bool) error {
	if old == nil && revision == nil || old != nil && !absent && (revision == nil || *revision == old.stat.Revision) {
		return nil
	}
	e := lockapi.Errorf(lockapi.CodePrecondition, "not so")
	if old != nil {
		now := master.FileOf(old.stat, old.content, tell)
		e.Current = &now
	}
	return e
}

func (f *fakeMaster) DeleteFiles(ctx context.Context, d *lockapi.DeleteFiles) (master.FilesDeleted, error) {
	call := "delete " + d.Path
	if d.Prefix != "" {
		call = "delete below " + d.Prefix
	}
	if d.Session != "" {
		call += " session=" + d.Session
	}
	if err := f.enter(ctx, call+conditions(d.IfRevision, d.Sequencers, d.Key), false); err != nil {
		return master.FilesDeleted{}, err
	}
	defer f.mu.Unlock()
	if d.Path != "" {
		if err := conditionOf(f.files[d.Path], d.IfRevision, false, false); err != nil {
			return master.FilesDeleted{}, err
		}
	}
	out := master.FilesDeleted{Revision: f.revision, Replayed: d.Key == replayedKey}
	for path := range f.files {
		if path == d.Path || d.Prefix != "" && strings.HasPrefix(path, d.Prefix) {
			delete(f.files, path)
			f.revision++
			out.Files, out.Revision = out.Files+1, f.revision
		}
	}
	return out, nil
}

func (f *fakeMaster) Transact(ctx context.Context, req *lockapi.Transact) (master.TransactionDone, error) {
	said, _ := json.Marshal(req.Transaction)
	if err := f.enter(ctx, "transact "+string(said)+conditions(nil, nil, req.Key), false); err != nil {
		return master.TransactionDone{}, err
	}
	defer f.mu.Unlock()
	if req.Session != "" && req.Session != "s1" {
		if err := f.session(req.Session); err != nil {
			return master.TransactionDone{}, err
		}
	}
	done := master.TransactionDone{Replayed: req.Key == replayedKey}
	done.Succeeded, done.Revision, done.Results = true, f.revision, []lockapi.OperationResult{}
	for range req.Then {
		done.Results = append(done.Results, lockapi.OperationResult{Deleted: &lockapi.FileDeleted{}})
	}
	return done, nil
}

func (f *fakeMaster) File(ctx context.Context, stale bool, q *lockapi.GetFile) (master.FileRead, error) {
	if err := f.enter(ctx, "file "+q.Path, stale); err != nil {
		return master.FileRead{}, err
	}
	defer f.mu.Unlock()
	one, ok := f.files[q.Path]
	if !ok {
		return master.FileRead{}, lockapi.Errorf(lockapi.CodeNotFound, "there is no file %q", q.Path)
	}
	return master.FileRead{Stat: one.stat, Content: one.content}, nil
}

func (f *fakeMaster) Files(ctx context.Context, stale bool, p *lockapi.ListFiles) (lockapi.FileList, error) {
	if err := f.enter(ctx, fmt.Sprintf("files %s %s %d %v %v", p.Prefix, p.After, p.Limit, p.Delimiter, p.Content), stale); err != nil {
		return lockapi.FileList{}, err
	}
	defer f.mu.Unlock()
	page := lockapi.FileList{Files: []lockapi.File{}, Dirs: []string{}}
	byPath := func(a, b *fakeFile) int { return cmp.Compare(a.stat.Path, b.stat.Path) }
	for _, one := range slices.SortedFunc(maps.Values(f.files), byPath) {
		if strings.HasPrefix(one.stat.Path, p.Prefix) {
			page.Files = append(page.Files, master.FileOf(one.stat, one.content, p.Content))
		}
	}
	return page, nil
}
