package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
)

// Contents has List and Follow tell the contents of files as well. Other reads
// take no notice of it.
func Contents() ReadOption { return func(o *readOptions) { o.contents = true } }

// List yields the files whose paths begin with prefix, a plain string, in
// bytewise order of their paths; the empty prefix stands for all of them. Pages
// are fetched as they are needed, each a consistent view of its own, at the
// revision that File.AsOf tells. The first error is yielded last.
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

// DirEntry is what lies in a directory: a file, or another directory, which has
// no stat of its own.
type DirEntry struct {
	// Path is the file's path, or the directory's, with the "/" at its end.
	Path string
	File *File // nil of a directory
}

// ReadDir yields what lies in a directory, which is given with the "/" at its
// end, in bytewise order. Directories are implied by the files in them. It pages
// as List does.
func (c *Client) ReadDir(ctx context.Context, dir string, opts ...ReadOption) iter.Seq2[DirEntry, error] {
	return func(yield func(DirEntry, error) bool) {
		for page, err := range c.filePages(ctx, dir, true, opts) {
			if err != nil {
				yield(DirEntry{}, err)
				return
			}
			for e := range page.entries() {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// entries are the files and directories of a page in one order.
func (p *listAnswer) entries() iter.Seq[DirEntry] {
	return func(yield func(DirEntry) bool) {
		files, dirs := p.Files, p.Dirs
		for len(files)+len(dirs) > 0 {
			var e DirEntry
			if len(dirs) == 0 || len(files) > 0 && files[0].Path < dirs[0] {
				f := fileOf(&files[0], p.asOf)
				e, files = DirEntry{Path: f.Path, File: &f}, files[1:]
			} else {
				e, dirs = DirEntry{Path: dirs[0]}, dirs[1:]
			}
			if !yield(e) {
				return
			}
		}
	}
}

// filePages yields a list's pages.
func (c *Client) filePages(ctx context.Context, prefix string, rolled bool, opts []ReadOption) iter.Seq2[*listAnswer, error] {
	query := url.Values{"limit": {strconv.Itoa(lockapi.MaxListLimit)}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	if rolled {
		query.Set("delimiter", "/")
	}
	if makeReadOptions(opts).contents {
		query.Set("content", "true")
	}
	return func(yield func(*listAnswer, error) bool) {
		query.Del("after")
		for {
			page := new(listAnswer)
			q := call{path: lockapi.RouteFiles, out: page, check: verifyFileList, want: wanted{path: prefix, after: query.Get("after")}}
			if err := c.readDated(ctx, q, query, opts); err != nil {
				yield(nil, err)
				return
			}
			if !makeReadOptions(opts).stale { // a replica may be ahead of the master
				c.seen.note(page.asOf)
			}
			if !yield(page, nil) || page.Next == "" {
				return
			}
			query.Set("after", page.Next)
		}
	}
}
