package client

import (
	"context"
	"net/url"

	"github.com/stoutlock/stout/lockapi"
)

// File is a file as it was read.
type File struct {
	lockapi.FileStat
	// Content is the whole content; nil where it was not asked for, or is not
	// there any more.
	Content []byte
	// AsOf is the revision of the cell that this was read at: Watch after it
	// tells whatever has become of the file since.
	AsOf uint64
}

// Get reads a file. Where there is none the error is ErrNotFound;
// lockapi.Error.Revision is then the revision of the cell at which that was so.
func (c *Client) Get(ctx context.Context, path string, opts ...ReadOption) (File, error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return File{}, err
	}
	var out fileAnswer
	q := call{path: lockapi.RouteFiles + path, out: &out, check: verifyFile, want: wanted{path: path}}
	if err := c.readDated(ctx, q, url.Values{"as": {"json"}}, opts); err != nil {
		return File{}, err
	}
	if !makeReadOptions(opts).stale { // a replica may be ahead of the master
		c.seen.note(out.asOf)
	}
	return fileOf(&out.File, out.asOf), nil
}

// readDated is a read whose answer tells its revision. One that is linearizable
// shows whatever this client has seen before.
func (c *Client) readDated(ctx context.Context, q call, query url.Values, opts []ReadOption) error {
	if !makeReadOptions(opts).stale {
		q.want.since = c.seen.highest()
	}
	return c.read(ctx, q, query, opts)
}

// Put writes a whole file, whether or not there is one, and returns its new
// stat. The content may be changed when it has returned.
//
// It is sent once: where its outcome is unknown the error says so
// (ErrOutcomeUnknown), since a write that is sent again may undo what somebody
// else has written meanwhile. Session.Put is sent again, and done once.
func (c *Client) Put(ctx context.Context, path string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return put(ctx, sender{c: c}, path, content, makeWriteOptions(opts))
}

// Create is Put where there is no such file; else it returns ErrPrecondition.
func (c *Client) Create(ctx context.Context, path string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return put(ctx, sender{c: c}, path, content, makeWriteOptions(append(opts[:len(opts):len(opts)], IfAbsent())))
}

// CreateSequential creates a file whose name is prefix, which may end in "/",
// and 16 digits: the revision that makes it. Such names grow in the order in
// which they are made.
func (c *Client) CreateSequential(ctx context.Context, prefix string, content []byte, opts ...WriteOption) (lockapi.FileStat, error) {
	return createSequential(ctx, sender{c: c}, prefix, content, makeWriteOptions(opts))
}

// Delete deletes a file. It returns the revision of that, or 0 where there was
// none. It is sent once, as Put is.
func (c *Client) Delete(ctx context.Context, path string, opts ...WriteOption) (revision uint64, err error) {
	return deleteFile(ctx, sender{c: c}, path, makeWriteOptions(opts))
}

// DeleteBelow deletes the files below a directory, which is given with the "/"
// at its end, in one entry of the log: at most lockapi.MaxFilesDeleted files,
// each at a revision of its own. It returns their number and the last of the
// revisions, 0 where there were none. It is sent once, as Put is.
func (c *Client) DeleteBelow(ctx context.Context, dir string, opts ...WriteOption) (n int, revision uint64, err error) {
	return deleteBelow(ctx, sender{c: c}, dir, makeWriteOptions(opts))
}

// Put is Client.Put on behalf of the session, which must live. It is done
// exactly once: it carries a key of its own, under which the cell remembers its
// answer, so it is sent again until it is answered or ctx ends.
//
// The cell remembers so many answers of a session, so a session has at most 64
// writes under way between one that has no answer yet and the latest; further
// ones wait.
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
