package master

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// FileWritten is the result of a write.
type FileWritten struct {
	Stat     lockapi.FileStat
	Created  bool
	Replayed bool // an earlier answer under the key is given again
}

func (w FileWritten) again() bool { return w.Replayed }

// FilesDeleted is the result of a deletion.
type FilesDeleted struct {
	Files    int
	Revision uint64
	Replayed bool
}

func (d FilesDeleted) again() bool { return d.Replayed }

// WriteFile writes a file. The errors are precondition_failed, not_held,
// conflict for another call under the key, session_not_found, too_many, and the
// errors of every call.
func (m *Master) WriteFile(ctx context.Context, by *Caller, w *lockapi.WriteFile) (FileWritten, error) {
	sum := sha256.Sum256(w.Content)
	step := &state.Write{Path: w.Path, Content: w.Content, Sum: sum[:], Sequential: w.Sequential, Owner: ownerOf(w.Ephemeral), WithContent: w.Tell}
	switch {
	case w.IfAbsent:
		step.When = state.IfAbsent
	case w.IfRevision != nil:
		step.When, step.Revision = state.IfRevision, *w.IfRevision
	}
	call := *w
	call.Content = sum[:] // the digest has the sum instead of the content
	r, err := m.transact(ctx, by, &state.Transaction{Session: w.Session, Key: w.Key, Guards: guardsOf(w.Sequencers), Then: []state.Step{step}}, call)
	if err != nil {
		return FileWritten{}, err
	}
	f := r.Steps[0].File
	return FileWritten{Stat: statOf(f), Created: f.Generation == 1, Replayed: r.Replayed}, nil
}

// DeleteFiles deletes one file, or the files below a directory. It returns the
// errors of WriteFile, and invalid_argument for too many files.
func (m *Master) DeleteFiles(ctx context.Context, by *Caller, d *lockapi.DeleteFiles) (FilesDeleted, error) {
	var step state.Step = &state.DeleteBelow{Prefix: d.Prefix}
	if d.Path != "" {
		one := &state.Delete{Path: d.Path}
		if d.IfRevision != nil {
			one.When, one.Revision = state.IfRevision, *d.IfRevision
		}
		step = one
	}
	r, err := m.transact(ctx, by, &state.Transaction{Session: d.Session, Key: d.Key, Guards: guardsOf(d.Sequencers), Then: []state.Step{step}}, d)
	if err != nil {
		return FilesDeleted{}, err
	}
	return FilesDeleted{Files: r.Steps[0].Deleted, Revision: r.Revision, Replayed: r.Replayed}, nil
}

// transact proposes a transaction, unless it would change nothing. The key's
// digest is made from call, which is what the caller sent.
func (m *Master) transact(ctx context.Context, by *Caller, op *state.Transaction, call any) (state.TransactionResult, error) {
	return serve(m, by, func(o *office) (state.TransactionResult, error) {
		if op.Key != "" {
			op.Digest = digestOf(call)
		}
		if w, ok := op.Then[0].(*state.Write); ok && w.WithContent {
			// Without the right to read, a refusal because of the content's length would show it.
			w.WithContent = by.who().MayRead(o.log.State(), w.Path)
		}
		op := o.withNameChecks(by, op)
		found, ok := o.fromMemory(op)
		if !ok {
			var err error
			if found, err = o.putThrough(ctx, by, op); err != nil {
				return state.TransactionResult{}, err
			}
		}
		r := found.(state.TransactionResult)
		if r.Failure != nil && r.Failure.Why == state.Denied {
			return r, by.who().Denied(access.Write.String(), r.Failure.Path)
		}
		return r, by.who().FilterFailure(o.log.State(), errOf(op, r), r.Failure, op.Then)
	})
}

// putThrough proposes a transaction once its turn has come and the quotas have
// room.
func (o *office) putThrough(ctx context.Context, by *Caller, op *state.Transaction) (found state.Result, err error) {
	placed := func() {}
	if c := compareAndSetCall(op); c != nil {
		if o.turns.enter(ctx, c, o.done) {
			placed = func() { o.turns.placed(c) }
			defer func() {
				r, _ := found.(state.TransactionResult)
				o.turns.leave(c, r.Verdict == state.Failed)
			}()
		}
		if ctx.Err() != nil {
			return nil, errNoMaster("the caller has gone")
		}
		if err := o.authorize(by); err != nil { // the call may have waited
			return nil, err
		}
	}
	reserved, err := o.quotas.Transaction(op, by.Principal)
	if err != nil {
		return nil, err
	}
	defer o.quotas.Release(reserved)
	var below []string
	for _, step := range op.Then {
		if d, ok := step.(*state.DeleteBelow); ok {
			below = append(below, d.Prefix)
		}
	}
	turn, err := o.turnToDelete(ctx, by, below)
	if err != nil {
		return nil, err
	}
	defer o.deletions.finish(turn)
	wait := o.begin(by, op)
	placed()
	return wait()
}

// digestOf returns the fingerprint of a call with a key. The state keeps it,
// and a master of a later release compares it with the same call sent again. So
// the JSON of the fingerprinted types (lockapi.WriteFile, DeleteFiles, Transact
// and SessionRequest) is fixed, field by field: testdata/digests.txt lists it.
// A new field must be omitted while unset (omitzero), in each call that earlier
// releases know.
func digestOf(call any) []byte {
	raw, err := json.Marshal(call)
	if err != nil {
		panic(err) // strings, numbers and bytes only
	}
	sum := sha256.Sum256(raw)
	return sum[:16]
}

// withNameChecks returns the transaction with its sequential files marked for a
// check of the caller's rights at their final names, if the cell has the level
// for that. A name contains the revision of the write, which only the state
// knows.
func (o *office) withNameChecks(by *Caller, op *state.Transaction) *state.Transaction {
	if s := o.log.State(); !s.AccessOn || !s.ChecksNames() || !slices.ContainsFunc(op.Then, isSequential) && !slices.ContainsFunc(op.Else, isSequential) {
		return op
	}
	out := *op
	out.Then, out.Else = nameChecksFor(by.who().Identity(), op.Then), nameChecksFor(by.who().Identity(), op.Else)
	return &out
}

// nameChecksFor returns a branch with its sequential files marked for a
// principal.
func nameChecksFor(who string, branch []state.Step) []state.Step {
	out := slices.Clone(branch)
	for i, step := range branch {
		if isSequential(step) {
			checked := *step.(*state.Write)
			checked.CheckedFor = who
			out[i] = &checked
		}
	}
	return out
}

func isSequential(step state.Step) bool {
	w, ok := step.(*state.Write)
	return ok && w.Sequential
}

// errOf converts the result of a transaction to an error of the contract.
func errOf(op *state.Transaction, r state.TransactionResult) error {
	switch r.Verdict {
	case state.Done:
		return nil
	case state.NoSession:
		return rights.ErrNoSession(op.Session)
	case state.Conflict:
		return lockapi.Errorf(lockapi.CodeConflict, "%s %q was used for another call of session %q; use a fresh key for each write",
			lockapi.HeaderIdempotencyKey, op.Key, lockapi.Clip(op.Session))
	case state.TooLong:
		return lockapi.Invalid(lockapi.HeaderIdempotencyKey, "the answer has more than %d bytes, too many to be remembered under a key: nothing was done; request less, or send no %s",
			lockapi.MaxRememberedAnswer, lockapi.HeaderIdempotencyKey)
	case state.NotHeld:
		q := sequencerOf(*r.Guard)
		e := lockapi.Errorf(lockapi.CodeNotHeld, "the grant %s is no longer held: nothing was written", q)
		e.Sequencer, e.Replayed = q.String(), r.Replayed
		return e
	}
	e := errFailure(r.Failure)
	e.Replayed = r.Replayed
	return e
}

func errFailure(f *state.Failure) *lockapi.Error {
	if f.Why == state.Busy {
		return lockapi.Invalid("prefix", "there are more than %d files below it: nothing was deleted; delete them in parts", state.MaxDeleted)
	}
	e := lockapi.Errorf(lockapi.CodePrecondition, "the file does not meet the condition: nothing was changed")
	if f.Current != nil {
		now := FileOf(statOf(f.Current), f.Current.Content, f.Whole)
		e.Current = &now
		e.Detail = lockapi.Errorf(lockapi.CodePrecondition, "file %q is at revision %d: nothing was changed", now.Path, now.Revision).Detail
	}
	return e
}

func guardsOf(all []lockapi.Sequencer) []state.Sequencer {
	var out []state.Sequencer
	for _, q := range all {
		out = append(out, state.Sequencer{Mode: stateMode(q.Mode), Token: q.Token, Path: q.Path})
	}
	return out
}

func sequencerOf(q state.Sequencer) lockapi.Sequencer {
	return lockapi.Sequencer{Mode: mode(q.Mode), Token: q.Token, Path: q.Path}
}

func statOf(f *state.File) lockapi.FileStat {
	return lockapi.FileStat{Path: f.Path, Revision: f.Revision, Instance: f.Instance, Generation: f.Generation,
		Size: f.Size, SHA256: hex.EncodeToString(f.Sum), Session: f.Session,
		CreatedAt: time.Unix(0, f.CreatedAt).UTC(), ModifiedAt: time.Unix(0, f.ModifiedAt).UTC(), Principal: f.Principal}
}

// FileRead is a file. Content must not be changed.
type FileRead struct {
	Stat    lockapi.FileStat
	Content []byte
}

// GetFile reads a file. The errors are not_found and the errors of every read.
func (m *Master) GetFile(ctx context.Context, q *Read, c *lockapi.GetFile) (FileRead, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (FileRead, error) {
		f, ok := s.File(c.Path)
		if !ok {
			return FileRead{}, lockapi.Errorf(lockapi.CodeNotFound, "there is no file %q", lockapi.Clip(c.Path))
		}
		return FileRead{Stat: statOf(f), Content: f.Content}, nil
	})
}

// ListFiles reads a page of files in bytewise order. It ends at the limit, or
// with the file that makes it lockapi.PageBytes long.
func (m *Master) ListFiles(ctx context.Context, q *Read, c *lockapi.ListFiles) (lockapi.FileList, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (lockapi.FileList, error) {
		if s.AccessOn {
			return filePage(*c).of(visibleFiles{s, q.Caller}), nil
		}
		return filePage(*c).of(s), nil
	})
}

// filesOf is the source of a page.
type filesOf interface {
	// Files walks the files with a path that begins with prefix and sorts
	// after the other argument.
	Files(prefix, after string) iter.Seq[*state.File]
}

// visibleFiles are the files that a caller may read.
type visibleFiles struct {
	*state.State
	to *Caller
}

func (v visibleFiles) Files(prefix, after string) iter.Seq[*state.File] {
	return only(v.State.Files(prefix, after), func(f *state.File) bool { return v.to.who().MayRead(v.State, f.Path) })
}

// behind sorts after every continuation of a path: 0xff is in no UTF-8.
const behind = "\xff"

// filePage is a request for a page of files.
type filePage lockapi.ListFiles

// of reads the page. It skips everything below a directory that it rolls up,
// however much that is.
func (p filePage) of(s filesOf) lockapi.FileList {
	page := lockapi.FileList{Files: []lockapi.File{}, Dirs: []string{}}
	if p.Delimiter && p.Prefix == "" {
		p.Prefix = "/" // every path begins with it; without it all files would be rolled up to the directory /
	}
	size, last := 0, ""
	full := func() bool { return len(page.Files)+len(page.Dirs) == p.Limit || size >= lockapi.PageBytes }
	for from, leap := p.After, true; leap; {
		leap = false
		for f := range s.Files(p.Prefix, from) {
			dir := p.directory(f.Path)
			known := dir != "" && dir <= p.After // the page before ended with it
			if !known && full() {
				page.Next = last
				return page
			}
			if dir == "" {
				one := FileOf(statOf(f), f.Content, p.Content)
				page.Files, last = append(page.Files, one), f.Path
				size += fileSize(&one)
				continue
			}
			if !known {
				page.Dirs, last = append(page.Dirs, dir), dir
				size += len(dir) + 4
			}
			from, leap = dir+behind, true
			break
		}
	}
	return page
}

// directory returns the directory that a path is rolled up to, or empty if the
// file is listed itself.
func (p filePage) directory(path string) string {
	if !p.Delimiter {
		return ""
	}
	if i := strings.IndexByte(path[len(p.Prefix):], '/'); i >= 0 {
		return path[:len(p.Prefix)+i+1]
	}
	return ""
}

// FileOf returns a file in the form of JSON, with or without its content.
func FileOf(stat lockapi.FileStat, content []byte, with bool) lockapi.File {
	out := lockapi.File{FileStat: stat}
	switch {
	case !with:
	case utf8.Valid(content):
		out.Content = new(string(content))
	default:
		out.ContentBase64 = content
	}
	return out
}
