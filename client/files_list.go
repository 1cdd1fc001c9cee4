package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

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
			for e := range page.entries() {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// entries yields the files and directories of a page in one order.
func (p *filePage) entries() iter.Seq[DirEntry] {
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

// filePage is a page of a list, with the revision at which it was read.
type filePage struct {
	lockapi.FileList
	asOf uint64
}

// filePages yields a list's pages.
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
