package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// WriteOption adjusts a write or a deletion.
type WriteOption func(*writeOptions)

type writeOptions struct {
	revision   uint64
	ifRevision bool
	ifAbsent   bool
	tell       bool
	ephemeral  *bool
	holds      []*Held
}

// IfRevision makes the write only if the file has this revision; otherwise the
// error is ErrPrecondition.
func IfRevision(revision uint64) WriteOption {
	return func(o *writeOptions) { o.revision, o.ifRevision = revision, true }
}

// IfAbsent makes the write only if the file does not exist; otherwise the error
// is ErrPrecondition.
func IfAbsent() WriteOption { return func(o *writeOptions) { o.ifAbsent = true } }

// ReturnCurrent makes a refused conditional write return the file's present
// content with its stat: lockapi.Error.Current. A loop that reads, changes and
// writes then needs one call per attempt. The cell must remember the answer to
// a Session's write. Therefore a content of more than
// lockapi.MaxRememberedAnswer is refused with ErrInvalidArgument.
func ReturnCurrent() WriteOption { return func(o *writeOptions) { o.tell = true } }

// While makes the write only while the cell counts that very hold as held, in
// the order of its log; otherwise the error is ErrNotHeld. A holder that has
// lost its lock writes no more, however late the call arrives. While may be
// given lockapi.MaxSequencers times.
func While(held *Held) WriteOption {
	return func(o *writeOptions) { o.holds = append(o.holds, held) }
}

// Ephemeral makes the file end with the session that writes it, however that
// ends. It also changes the owner of a file that another session owns.
func Ephemeral() WriteOption { return owned(true) }

// Permanent makes an ephemeral file outlive its session. A write with neither
// option leaves the owner as it is.
func Permanent() WriteOption { return owned(false) }

func owned(on bool) WriteOption { return func(o *writeOptions) { o.ephemeral = &on } }

func makeWriteOptions(opts []WriteOption) writeOptions {
	var o writeOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// sender sends changes: on behalf of a session exactly once, or without a
// session at most once.
type sender struct {
	c *Client
	s *Session // nil without a session
}

func (w sender) send(ctx context.Context, q *call.Call) error {
	q.Required.Since = w.c.seen.highest()
	if w.s == nil {
		q.NoRetry = true
		return w.c.calls.Do(ctx, q)
	}
	if err := w.s.Err(); err != nil {
		return err
	}
	place, err := w.s.writes.enter(ctx)
	if err != nil {
		return q.GivenUp(err, nil)
	}
	defer w.s.writes.leave(place)
	q.Under(rand.Text())
	err = w.c.calls.Do(ctx, q)
	if isNoSession(err) {
		return w.s.expire()
	}
	if open, ok := errors.AsType[*call.UnknownOutcome](err); ok && call.IsAnswer(err) && open.Refusal.Code == lockapi.CodeSessionNotFound {
		return fmt.Errorf("%w: %w", w.s.expire(), err)
	}
	return err
}

// call returns the call of a write with its options, or what is wrong with
// them.
func (w sender) call(method, path string, o *writeOptions) (*call.Call, error) {
	q := &call.Call{Method: method, Path: lockapi.RouteFiles + path}
	switch {
	case o.ifRevision && o.ifAbsent:
		return nil, lockapi.Invalid("If-None-Match", "IfRevision and IfAbsent contradict each other")
	case o.ifRevision && (o.revision == 0 || o.revision > lockapi.MaxToken):
		return nil, lockapi.Invalid("If-Match", "revision %d is not within 1..%d", o.revision, uint64(lockapi.MaxToken))
	case o.ifRevision:
		q.Fields = append(q.Fields, [2]string{"If-Match", fmt.Sprintf(`"%d"`, o.revision)})
	case o.ifAbsent:
		q.Fields = append(q.Fields, [2]string{"If-None-Match", "*"})
		q.Required.Created = true
	}
	query := url.Values{}
	if w.s != nil {
		query.Set("session", w.s.id)
	}
	if o.ephemeral != nil {
		if *o.ephemeral && w.s == nil {
			return nil, lockapi.Invalid("ephemeral", "an ephemeral file ends with a session: use Session.Put")
		}
		query.Set("ephemeral", fmt.Sprint(*o.ephemeral))
	}
	if o.tell {
		query.Set("as", "json")
		query.Set("content", "true")
		q.Current = verifyCurrent
	}
	for _, h := range o.holds {
		if err := h.mayGuard(); err != nil {
			return nil, err
		}
		query["sequencer"] = append(query["sequencer"], h.Sequencers()...)
	}
	if n := len(query["sequencer"]); n > lockapi.MaxSequencers {
		return nil, lockapi.Invalid("sequencer", "%d holds guard the write; at most %d are allowed", n, lockapi.MaxSequencers)
	}
	q.Query = query.Encode()
	return q, nil
}

var errNoHold = lockapi.Invalid("sequencer", "the guarding hold is nil: pass the *Held from Lock to While or WhenHeld")

// mayGuard returns an error if the hold is already over here.
func (h *Held) mayGuard() error {
	if h == nil {
		return errNoHold
	}
	if err := h.Err(); err != nil {
		return fmt.Errorf("stout: %s: %w: %w", h.sequencer, lockapi.CodeNotHeld, err)
	}
	return nil
}

func put(ctx context.Context, w sender, path string, content []byte, o writeOptions) (lockapi.FileStat, error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return lockapi.FileStat{}, err
	}
	return write(ctx, w, http.MethodPut, path, content, o)
}

func createSequential(ctx context.Context, w sender, prefix string, content []byte, o writeOptions) (lockapi.FileStat, error) {
	if err := lockapi.ValidatePath(prefix + strings.Repeat("0", lockapi.SequentialDigits)); err != nil {
		return lockapi.FileStat{}, err
	}
	if o.ifRevision || o.ifAbsent || o.tell {
		return lockapi.FileStat{}, lockapi.Invalid("If-None-Match", "a sequential file has a new name, so conditions on the file do not apply")
	}
	return write(ctx, w, http.MethodPost, prefix, content, o)
}

// write makes a write. It copies the content: the last replica asked may still
// read it when another one has answered.
func write(ctx context.Context, w sender, method, path string, content []byte, o writeOptions) (out lockapi.FileStat, err error) {
	if len(content) > lockapi.MaxFileBytes {
		return out, lockapi.Errorf(lockapi.CodeTooLarge, "the content has %d bytes; a file has at most %d", len(content), lockapi.MaxFileBytes)
	}
	q, err := w.call(method, path, &o)
	if err != nil {
		return out, err
	}
	q.Body = append([]byte{}, content...)
	q.Out, q.Check = &out, verifyWritten
	q.Required.Path, q.Required.Content, q.Required.Sequential = path, q.Body, method == http.MethodPost
	if err := w.send(ctx, q); err != nil {
		return lockapi.FileStat{}, err
	}
	w.c.seen.note(out.Revision)
	return out, nil
}

func deleteFile(ctx context.Context, w sender, path string, o writeOptions) (revision uint64, err error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return 0, err
	}
	var out lockapi.FileDeleted
	if err := remove(ctx, w, path, "", o, &out); err != nil || !out.Deleted {
		return 0, err
	}
	w.c.seen.note(out.Revision)
	return out.Revision, nil
}

func deleteBelow(ctx context.Context, w sender, dir string, o writeOptions) (n int, revision uint64, err error) {
	if err := lockapi.ValidatePrefix(dir); err != nil {
		return 0, 0, err
	}
	if o.ifRevision {
		return 0, 0, lockapi.Invalid("If-Match", "IfRevision applies to one file; DeleteBelow deletes many")
	}
	var out deletedBelow
	if err := remove(ctx, w, "", dir, o, &out); err != nil || out.Deleted == 0 {
		return 0, 0, err
	}
	w.c.seen.note(out.Revision)
	return out.Deleted, out.Revision, nil
}

// deletedBelow is the answer to a deletion of many files.
type deletedBelow struct {
	Deleted  int    `json:"deleted"`
	Revision uint64 `json:"revision"`
}

// remove makes a deletion, of one file or of those below a directory.
func remove(ctx context.Context, w sender, path, dir string, o writeOptions, out any) error {
	if o.ifAbsent || o.ephemeral != nil || o.tell {
		return lockapi.Invalid("ephemeral", "a deletion accepts only IfRevision and While")
	}
	q, err := w.call(http.MethodDelete, path, &o)
	if err != nil {
		return err
	}
	if dir != "" {
		q.Query = strings.TrimPrefix(q.Query+"&", "&") + "prefix=" + url.QueryEscape(dir)
	}
	q.Out, q.Check = out, verifyDeleted
	return w.send(ctx, q)
}

func fileOf(f *lockapi.File, asOf uint64) File {
	return File{FileStat: f.FileStat, Content: f.Bytes(), AsOf: asOf}
}

// windowSize is half of the keyed answers that the cell remembers of a session.
// Besides an unanswered write, at most windowSize earlier and windowSize later
// ones are under way.
const windowSize = 64

// window bounds the keyed writes of a session. The cell remembers the answers
// to the last 128 of them. With more writes between the first and the last
// attempt of one write, its answer could be forgotten, and the write made
// again.
//
// The zero value is ready.
type window struct {
	mu     sync.Mutex // guards the following
	oldest uint64     // the oldest write under way
	next   uint64
	left   [windowSize]bool // by number, modulo the size: finished writes from oldest on
	moved  chan struct{}    // closed when oldest changes; nil without waiters
}

// enter waits for a free place and returns it. If ctx ends first it returns the
// cause.
func (w *window) enter(ctx context.Context) (place uint64, err error) {
	for {
		w.mu.Lock()
		if w.next-w.oldest < windowSize {
			place = w.next
			w.next++
			w.mu.Unlock()
			return place, nil
		}
		if w.moved == nil {
			w.moved = make(chan struct{})
		}
		moved := w.moved
		w.mu.Unlock()
		if err := timing.Await(ctx, moved); err != nil {
			return 0, err
		}
	}
}

func (w *window) leave(place uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[place%windowSize] = true
	for w.oldest < w.next && w.left[w.oldest%windowSize] {
		w.left[w.oldest%windowSize] = false
		w.oldest++
	}
	if w.moved != nil && w.next-w.oldest < windowSize {
		close(w.moved)
		w.moved = nil
	}
}
