package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// WriteOption adjusts a write, or a deletion.
type WriteOption func(*writeOptions)

type writeOptions struct {
	revision   uint64
	ifRevision bool
	ifAbsent   bool
	tell       bool
	ephemeral  *bool
	holds      []*Held
}

// IfRevision has the write done only if the file's revision is this one; else
// the error is ErrPrecondition.
func IfRevision(revision uint64) WriteOption {
	return func(o *writeOptions) { o.revision, o.ifRevision = revision, true }
}

// IfAbsent has the write done only if there is no such file; else the error is
// ErrPrecondition.
func IfAbsent() WriteOption { return func(o *writeOptions) { o.ifAbsent = true } }

// ReturnCurrent has a write whose condition does not hold tell the file's present
// content beside its stat: lockapi.Error.Current. So whoever reads, changes and
// writes until it succeeds makes one call a try. A Session's answer has to be
// remembered: with a content of more than lockapi.MaxRememberedAnswer it is
// ErrInvalidArgument.
func ReturnCurrent() WriteOption { return func(o *writeOptions) { o.tell = true } }

// While has the write done only while the cell counts that very hold as held,
// judged in the order of its log; else the error is ErrNotHeld. What has lost
// its lock writes nothing more, however late the call arrives. It may be given
// lockapi.MaxSequencers times.
func While(held *Held) WriteOption {
	return func(o *writeOptions) { o.holds = append(o.holds, held) }
}

// Ephemeral has the file end with the session that writes it, however that
// ends. One that another session owns is taken over.
func Ephemeral() WriteOption { return owned(true) }

// Permanent has an ephemeral file outlive its session. A write that says
// neither leaves the owner as it is.
func Permanent() WriteOption { return owned(false) }

func owned(on bool) WriteOption { return func(o *writeOptions) { o.ephemeral = &on } }

func makeWriteOptions(opts []WriteOption) writeOptions {
	var o writeOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// sender sends what changes something: on behalf of a session and exactly once,
// or of nobody and once at most.
type sender struct {
	c *Client
	s *Session // nil for nobody
}

// send makes a write.
func (w sender) send(ctx context.Context, q *call) error {
	q.want.since = w.c.seen.highest()
	if w.s == nil {
		q.once = true
		return w.c.calls.do(ctx, q)
	}
	if err := w.s.Err(); err != nil {
		return err
	}
	place, err := w.s.writes.enter(ctx)
	if err != nil {
		return q.givenUp(err, nil)
	}
	defer w.s.writes.leave(place)
	q.under(rand.Text())
	err = w.c.calls.do(ctx, q)
	if errors.Is(err, lockapi.CodeSessionNotFound) {
		return w.s.expire()
	}
	if open, ok := errors.AsType[*unsettledError](err); ok && open.refusal.Code == lockapi.CodeSessionNotFound {
		return fmt.Errorf("%w: %w", w.s.expire(), err)
	}
	return err
}

// call is the call of a write with its options, or what is wrong with them.
func (w sender) call(method, path string, o *writeOptions) (*call, error) {
	q := &call{method: method, path: lockapi.RouteFiles + path}
	switch {
	case o.ifRevision && o.ifAbsent:
		return nil, lockapi.Invalid("If-None-Match", "IfRevision and IfAbsent contradict each other")
	case o.ifRevision && (o.revision == 0 || o.revision > lockapi.MaxToken):
		return nil, lockapi.Invalid("If-Match", "revision %d is none: they are within 1..%d", o.revision, uint64(lockapi.MaxToken))
	case o.ifRevision:
		q.fields = append(q.fields, field{"If-Match", fmt.Sprintf(`"%d"`, o.revision)})
	case o.ifAbsent:
		q.fields = append(q.fields, field{"If-None-Match", "*"})
		q.want.created = true
	}
	query := url.Values{}
	if w.s != nil {
		query.Set("session", w.s.id)
	}
	if o.ephemeral != nil {
		if *o.ephemeral && w.s == nil {
			return nil, lockapi.Invalid("ephemeral", "an ephemeral file ends with a session: write it by Session.Put")
		}
		query.Set("ephemeral", fmt.Sprint(*o.ephemeral))
	}
	if o.tell {
		query.Set("as", "json")
		query.Set("content", "true")
		q.want.current = true
	}
	if len(o.holds) > lockapi.MaxSequencers {
		return nil, lockapi.Invalid("sequencer", "%d holds are to guard the write; at most %d do", len(o.holds), lockapi.MaxSequencers)
	}
	for _, h := range o.holds {
		if err := h.guards(); err != nil {
			return nil, err
		}
		query.Add("sequencer", h.sequencer)
	}
	q.query = query.Encode()
	return q, nil
}

var errNoHold = lockapi.Invalid("sequencer", "the hold that is to guard it is nil: give While or WhenHeld the *Held that Lock has returned")

// guards says why nothing can be done any more while the hold is held.
func (h *Held) guards() error {
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
		return lockapi.FileStat{}, lockapi.Invalid("If-None-Match", "a sequential file has a new name: there is nothing to compare it with")
	}
	return write(ctx, w, http.MethodPost, prefix, content, o)
}

// write makes a write. The content is copied: what was asked last may still be
// reading it when another replica has answered.
func write(ctx context.Context, w sender, method, path string, content []byte, o writeOptions) (out lockapi.FileStat, err error) {
	if len(content) > lockapi.MaxFileBytes {
		return out, lockapi.Errorf(lockapi.CodeTooLarge, "the content has %d bytes; a file has at most %d", len(content), lockapi.MaxFileBytes)
	}
	q, err := w.call(method, path, &o)
	if err != nil {
		return out, err
	}
	q.body = append([]byte{}, content...)
	q.out, q.check = &out, verifyWritten
	q.want.path, q.want.content, q.want.sequential = path, q.body, method == http.MethodPost
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
		return 0, 0, lockapi.Invalid("If-Match", "IfRevision is about one file; DeleteBelow is about many")
	}
	var out deletedBelow
	if err := remove(ctx, w, "", dir, o, &out); err != nil || out.Deleted == 0 {
		return 0, 0, err
	}
	w.c.seen.note(out.Revision)
	return out.Deleted, out.Revision, nil
}

// deletedBelow answers a deletion of many files.
type deletedBelow struct {
	Deleted  int    `json:"deleted"`
	Revision uint64 `json:"revision"`
}

// remove makes a deletion, of one file or of those below a directory.
func remove(ctx context.Context, w sender, path, dir string, o writeOptions, out any) error {
	if o.ifAbsent || o.ephemeral != nil || o.tell {
		return lockapi.Invalid("ephemeral", "a deletion takes IfRevision and While only")
	}
	q, err := w.call(http.MethodDelete, path, &o)
	if err != nil {
		return err
	}
	if dir != "" {
		q.query = strings.TrimPrefix(q.query+"&", "&") + "prefix=" + url.QueryEscape(dir)
	}
	q.out, q.check = out, verifyDeleted
	return w.send(ctx, q)
}

func fileOf(f *lockapi.File, asOf uint64) File {
	return File{FileStat: f.FileStat, Content: f.Bytes(), AsOf: asOf}
}
