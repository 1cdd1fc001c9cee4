package client

import (
	"context"
	"net/url"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

// File is a file as a read returned it.
type File struct {
	lockapi.FileStat
	// Content is the whole content; nil if it was not requested or no longer
	// exists.
	Content []byte
	// AsOf is the cell's revision at which the file was read. Watch after it
	// yields all later changes of the file.
	AsOf uint64
}

// Get reads a file. If it does not exist the error is ErrNotFound, and
// lockapi.Error.Revision is the cell's revision at which that was so.
func (c *Client) Get(ctx context.Context, path string, opts ...ReadOption) (File, error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return File{}, err
	}
	var out lockapi.File
	q := call.Call{Path: lockapi.RouteFiles + path, Out: &out, Check: verifyFile, Required: call.Required{Path: path}}
	if err := c.readDated(ctx, &q, url.Values{"as": {"json"}}, opts); err != nil {
		return File{}, err
	}
	return fileOf(&out, q.AsOf), nil
}

// readDated is a read with a revision in its answer. A linearizable read must
// be at least as new as the client's earlier results.
func (c *Client) readDated(ctx context.Context, q *call.Call, query url.Values, opts []ReadOption) error {
	q.Dated = true
	stale := bridge.MakeReadOptions(opts).Stale
	if !stale {
		q.Required.Since = c.seen.highest()
	}
	err := c.read(ctx, q, query, opts)
	if err == nil && !stale { // a replica may be ahead of the master
		c.seen.note(q.AsOf)
	}
	return err
}

// Put writes a whole file, whether or not it exists, and returns its new stat.
// The caller may change content after Put has returned.
//
// Put is sent once: if its outcome is unknown it returns ErrOutcomeUnknown,
// since a repeated write may undo another caller's later write. Session.Put is
// repeated and takes effect once.
func (c *Client) Put(ctx context.Context, path string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return put(ctx, sender{c: c}, path, content, makeWriteOptions(opts))
}

// Create is Put if the file does not exist; otherwise it returns
// ErrPrecondition.
func (c *Client) Create(ctx context.Context, path string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return put(ctx, sender{c: c}, path, content, makeWriteOptions(append(opts[:len(opts):len(opts)], IfAbsent())))
}

// CreateSequential creates a file. Its name is prefix, which may end in "/",
// followed by 16 digits: the revision that creates it. Such names grow in the
// order of their creation.
func (c *Client) CreateSequential(ctx context.Context, prefix string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return createSequential(ctx, sender{c: c}, prefix, content, makeWriteOptions(opts))
}

// Delete deletes a file. It returns the revision of the deletion, or 0 if the
// file did not exist. It is sent once, as Put is.
func (c *Client) Delete(ctx context.Context, path string, opts ...WriteOption) (revision uint64, err error) {
	return deleteFile(ctx, sender{c: c}, path, makeWriteOptions(opts))
}

// DeleteBelow deletes the files below a directory in one entry of the log. dir
// ends in "/". It deletes at most lockapi.MaxFilesDeleted files, each at its
// own revision. It returns their number and the last revision, 0 if there were
// no files. It is sent once, as Put is.
func (c *Client) DeleteBelow(ctx context.Context, dir string, opts ...WriteOption) (n int, revision uint64, err error) {
	return deleteBelow(ctx, sender{c: c}, dir, makeWriteOptions(opts))
}

// Put is Client.Put on behalf of the session, which must be alive. It takes
// effect exactly once. It carries an idempotency key, under which the cell
// remembers its answer, so it is repeated until it is answered or ctx ends.
//
// The cell remembers a bounded number of answers per session. Therefore a
// session has at most 64 writes between the oldest unanswered one and the
// latest; further writes wait.
func (s *Session) Put(ctx context.Context, path string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return put(ctx, sender{c: s.c, s: s}, path, content, makeWriteOptions(opts))
}

// Create is Client.Create on behalf of the session, exactly once as Put.
func (s *Session) Create(ctx context.Context, path string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return put(ctx, sender{c: s.c, s: s}, path, content, makeWriteOptions(append(opts[:len(opts):len(opts)], IfAbsent())))
}

// CreateSequential is Client.CreateSequential on behalf of the session, exactly
// once as Put.
func (s *Session) CreateSequential(ctx context.Context, prefix string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return createSequential(ctx, sender{c: s.c, s: s}, prefix, content, makeWriteOptions(opts))
}

// Delete is Client.Delete on behalf of the session, exactly once as Put.
func (s *Session) Delete(ctx context.Context, path string, opts ...WriteOption) (revision uint64, err error) {
	return deleteFile(ctx, sender{c: s.c, s: s}, path, makeWriteOptions(opts))
}

// DeleteBelow is Client.DeleteBelow on behalf of the session, exactly once as
// Put.
func (s *Session) DeleteBelow(ctx context.Context, dir string, opts ...WriteOption) (n int, revision uint64, err error) {
	return deleteBelow(ctx, sender{c: s.c, s: s}, dir, makeWriteOptions(opts))
}
