package client

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/stoutlock/stout/lockapi"
)

// FileChange is what Follow tells of a file, or, where Synced is set, of none.
type FileChange struct {
	Path string
	// Revision is that of the change; of what was found by reading, where
	// nobody knows that of a deletion, the one at which it was found.
	Revision uint64
	File     *File  // as it is now; nil where it was deleted
	Reason   string // of a deletion; empty where it was found by reading
	// Listed says that this was found by reading the files: at the beginning,
	// and after events were missed.
	Listed bool
	// Synced says that whatever was there at Revision has been told, or what
	// has become of it since: nothing else is set. Watch after Revision misses
	// nothing.
	Synced bool
}

// Follow tells the files whose paths begin with prefix, a plain string, as they
// are now, then every change of one of them, for ever: until ctx ends or the
// caller breaks the loop. Between the two nothing is missed, and nothing told
// twice.
//
// After the present files a FileChange with Synced comes. Where the caller was
// so slow, or cut off for so long, that events are not kept any more, Follow
// reads the files again and tells what differs, deletions as well, and then
// again Synced: changes in between may be told as one. It remembers the
// revision of each file for that.
//
// With Contents the files have their contents, but for a change after which
// another one followed at once: then the content comes with that. An error is
// yielded last, as by Watch. Stale is of no use here, and ignored: pages of
// which a later one is older would not fit together.
func (c *Client) Follow(ctx context.Context, prefix string, opts ...ReadOption) iter.Seq2[FileChange, error] {
	return func(yield func(FileChange, error) bool) {
		f := follower{c: c, prefix: prefix, opts: append(slices.Clone(opts), fresh), yield: yield, known: make(map[string]uint64)}
		if err := f.run(ctx); err != errStopped {
			yield(FileChange{}, err)
		}
	}
}

// fresh takes Stale back.
func fresh(o *readOptions) { o.stale = false }

// follower is one loop of Follow.
type follower struct {
	c      *Client
	prefix string
	opts   []ReadOption
	yield  func(FileChange, error) bool
	known  map[string]uint64 // the revision of each file that there is
	pages  []readPage        // of the last reading, while there are events of before its end
}

// readPage is a part of the files, up to a path, with the revision that it was
// read at. The last one's path is empty.
type readPage struct {
	upTo string
	asOf uint64
}

func (f *follower) run(ctx context.Context) error {
	filters := []Filter{OfType(lockapi.EventTypes(lockapi.SubjectFile)...)}
	if f.prefix != "" {
		filters = append(filters, OnPrefix(f.prefix))
	}
	if makeReadOptions(f.opts).contents {
		filters = append(filters, EventContents())
	}
	if _, err := makeFilter(filters); err != nil {
		return err // rather than to tell that there is nothing
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

// list reads the files and tells what is new. It returns the revision after
// which the events matter: pages that were read later may know of some.
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

// asOf is the revision at which the files were read among which the path is; 0
// where that no longer matters.
func (f *follower) asOf(path string) uint64 {
	for _, p := range f.pages {
		if p.upTo == "" || path <= p.upTo {
			return p.asOf
		}
	}
	return 0
}

// deliver passes on an event that the reading of the files does not know of.
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
