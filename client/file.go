package client

import (
	"cmp"
	"context"
	"iter"
	"net/url"
	"slices"
	"strconv"

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

// Contents makes List and Follow return the contents of files as well. Other
// reads ignore it.
func Contents() ReadOption { return func(o *bridge.ReadOptions) { o.Contents = true } }

// List yields the files with paths that begin with prefix, a plain string, in
// bytewise order of their paths. The empty prefix means all files. It fetches
// pages as needed. Each page is a consistent view of its own, at the revision
// in File.AsOf. The first error is yielded last.
func (c *Client) List(ctx context.Context, prefix string, opts ...ReadOption) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for page, err := range c.filePages(ctx, prefix, false, opts) {
			if err != nil {
				yield(File{}, err)
				return
			}
			for i := range page.Files {
				if !yield(fileOf(&page.Files[i], page.asOf), nil) {
					return
				}
			}
		}
	}
}

// DirEntry is an entry of a directory: a file, or another directory, which has
// no stat of its own.
type DirEntry struct {
	// Path is the file's path, or the directory's, with the "/" at its end.
	Path string
	File *File // nil for a directory
}

// ReadDir yields the entries of a directory in bytewise order. dir ends in "/".
// Directories exist by the files in them. ReadDir pages as List does.
func (c *Client) ReadDir(ctx context.Context, dir string, opts ...ReadOption) iter.Seq2[DirEntry, error] {
	return func(yield func(DirEntry, error) bool) {
		for page, err := range c.filePages(ctx, dir, true, opts) {
			if err != nil {
				yield(DirEntry{}, err)
				return
			}
			for _, e := range page.entries() {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// entries returns the files and directories of a page in one order.
func (p *filePage) entries() []DirEntry {
	out := make([]DirEntry, 0, len(p.Files)+len(p.Dirs))
	for i := range p.Files {
		f := fileOf(&p.Files[i], p.asOf)
		out = append(out, DirEntry{Path: f.Path, File: &f})
	}
	for _, dir := range p.Dirs {
		out = append(out, DirEntry{Path: dir})
	}
	slices.SortFunc(out, func(a, b DirEntry) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// filePage is a page of a list, with the revision at which it was read.
type filePage struct {
	lockapi.FileList
	asOf uint64
}

func (c *Client) filePages(ctx context.Context, prefix string, rolled bool, opts []ReadOption) iter.Seq2[*filePage, error] {
	query := url.Values{"limit": {strconv.Itoa(lockapi.MaxListLimit)}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	if rolled {
		query.Set("delimiter", "/")
	}
	if bridge.MakeReadOptions(opts).Contents {
		query.Set("content", "true")
	}
	return func(yield func(*filePage, error) bool) {
		query.Del("after")
		for {
			page := new(filePage)
			q := call.Call{Path: lockapi.RouteFiles, Out: &page.FileList, Check: verifyFileList, Required: call.Required{Path: prefix, After: query.Get("after")}}
			if err := c.readDated(ctx, &q, query, opts); err != nil {
				yield(nil, err)
				return
			}
			page.asOf = q.AsOf
			if !yield(page, nil) || page.Next == "" {
				return
			}
			query.Set("after", page.Next)
		}
	}
}
