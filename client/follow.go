package client

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/lockapi"
)

// FileChange is one result of Follow: a change of a file, or the end of a
// listing if Synced is set.
type FileChange struct {
	Path string
	// Revision is the revision of the change. For a deletion that was found by
	// reading, it is the revision of that read.
	Revision uint64
	File     *File  // the present file; nil if it was deleted
	Reason   string // of a deletion; empty if it was found by reading
	// Listed means that a read of the files found this: at the beginning, and
	// after events were missed.
	Listed bool
	// Synced means that all files at Revision, or their later changes, have been
	// yielded; no other field is set. Watch after Revision misses no event.
	Synced bool
}

// Follow yields the present files with paths that begin with prefix, a plain
// string, then every change of one of them. It continues until ctx ends or the
// caller breaks the loop. There are no gaps and no repeats between the two.
//
// A FileChange with Synced follows the present files. If the caller was so
// slow, or cut off for so long, that events are no longer kept, Follow reads
// the files again. It yields the differences, including deletions, and then
// Synced again; several changes may appear as one. For that it remembers the
// revision of each file.
//
// With Contents the files have their contents, except a change that was
// followed by another at once: the later change has the content. An error is
// yielded last, as by Watch. Stale is ignored: the pages of a read would not
// fit together if a later one were older.
func (c *Client) Follow(ctx context.Context, prefix string, opts ...ReadOption) iter.Seq2[FileChange, error] {
	return func(yield func(FileChange, error) bool) {
		fresh := func(o *bridge.ReadOptions) { o.Stale = false }
		f := follower{c: c, prefix: prefix, opts: append(slices.Clone(opts), fresh), yield: yield, known: make(map[string]uint64)}
		if err := f.run(ctx); err != errStopped {
			yield(FileChange{}, err)
		}
	}
}

// follower is one loop of Follow.
type follower struct {
	c      *Client
	prefix string
	opts   []ReadOption
	yield  func(FileChange, error) bool
	known  map[string]uint64 // the revision of each present file
	pages  []readPage        // of the last read, while events from before its end may come
}

// readPage is a part of the files, up to a path, with the revision of its read.
// The last page's path is empty.
type readPage struct {
	upTo string
	asOf uint64
}

func (f *follower) run(ctx context.Context) error {
	filters := []Filter{OfType(lockapi.EventTypes(lockapi.SubjectFile)...)}
	if f.prefix != "" {
		filters = append(filters, OnPrefix(f.prefix))
	}
	if bridge.MakeReadOptions(f.opts).Contents {
		filters = append(filters, EventContents())
	}
	if _, err := makeFilter(filters); err != nil {
		return err // before yielding an empty listing
	}
	for {
		after, err := f.list(ctx)
		if err != nil {
			return err
		}
		for e, err := range f.c.Watch(ctx, after, filters...) {
			if err != nil {
				return err
			}
			if e.Compacted != nil {
				break
			}
			if err := f.deliver(&e.CellEvent); err != nil {
				return err
			}
		}
	}
}

// list reads the files and yields the differences. It returns the revision
// after which to watch: later pages may already contain some of the following
// events.
func (f *follower) list(ctx context.Context) (after uint64, err error) {
	f.pages = nil
	there := make(map[string]uint64, len(f.known))
	for page, err := range f.c.filePages(ctx, f.prefix, false, f.opts) {
		if err != nil {
			return 0, err
		}
		f.pages = append(f.pages, readPage{page.Next, page.asOf})
		for i := range page.Files {
			file := fileOf(&page.Files[i], page.asOf)
			there[file.Path] = file.Revision
			if f.known[file.Path] == file.Revision {
				continue
			}
			if !f.yield(FileChange{Path: file.Path, Revision: file.Revision, File: &file, Listed: true}, nil) {
				return 0, errStopped
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(f.known)) {
		if there[path] == 0 && !f.yield(FileChange{Path: path, Revision: f.asOf(path), Listed: true}, nil) {
			return 0, errStopped
		}
	}
	f.known = there
	if !f.yield(FileChange{Revision: f.pages[0].asOf, Synced: true}, nil) {
		return 0, errStopped
	}
	return f.pages[0].asOf, nil
}

// asOf returns the revision of the read that contains path; 0 once that no
// longer matters.
func (f *follower) asOf(path string) uint64 {
	for _, p := range f.pages {
		if p.upTo == "" || path <= p.upTo {
			return p.asOf
		}
	}
	return 0
}

// deliver yields an event unless the read already contains it.
func (f *follower) deliver(e *lockapi.CellEvent) error {
	if e.Type == lockapi.EventMasterChanged || e.Revision <= f.asOf(e.Path) {
		return nil
	}
	if len(f.pages) > 0 && e.Revision > f.pages[len(f.pages)-1].asOf {
		f.pages = nil
	}
	change := FileChange{Path: e.Path, Revision: e.Revision, Reason: e.Reason}
	if e.Type == lockapi.EventFileDeleted {
		delete(f.known, e.Path)
	} else {
		file := File{FileStat: lockapi.FileStat{Path: e.Path, Revision: e.Revision}, AsOf: e.Revision}
		if e.File != nil {
			file = fileOf(e.File, e.Revision)
		}
		change.File = &file
		f.known[e.Path] = e.Revision
	}
	if !f.yield(change, nil) {
		return errStopped
	}
	return nil
}
