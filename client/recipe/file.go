package recipe

import (
	"context"
	"errors"
	"iter"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// present yields the file at a path as it is now, then its changes, without
// end; nil means no file. It may skip versions that were overwritten at once.
// An error is yielded last.
func present(ctx context.Context, c *client.Client, path string) iter.Seq2[*client.File, error] {
	return func(yield func(*client.File, error) bool) {
		yielded, last := false, uint64(0) // the revision yielded last, 0 for no file
		send := func(f *client.File) bool {
			revision := uint64(0)
			if f != nil {
				revision = f.Revision
			}
			if yielded && last == revision {
				return true
			}
			yielded, last = true, revision
			return yield(f, nil)
		}
		for {
			file, after, err := find(ctx, c, path)
			if err != nil {
				yield(nil, err)
				return
			}
			if !send(file) {
				return
			}
			for e, err := range c.Watch(ctx, after, client.OnPath(path), client.OfType(fileEvents...), client.EventContents()) {
				if err != nil {
					yield(nil, err)
					return
				}
				if e.Compacted != nil {
					break // read it again
				}
				if file, ok := apply(&e); ok && !send(file) {
					return
				}
			}
		}
	}
}

var fileEvents = lockapi.EventTypes(lockapi.SubjectFile)

// find reads a file, nil if it does not exist, and returns the revision at
// which that was so.
func find(ctx context.Context, c *client.Client, path string) (_ *client.File, asOf uint64, err error) {
	file, err := c.Get(ctx, path)
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == client.ErrNotFound && refused.Revision > 0 {
		return nil, refused.Revision, nil
	}
	return &file, file.AsOf, err
}

// apply returns the file after an event, nil if it was deleted. ok is false for
// an event without content: another one follows.
func apply(e *client.Event) (_ *client.File, ok bool) {
	switch e.Type {
	case lockapi.EventFileDeleted:
		return nil, true
	case lockapi.EventFileCreated, lockapi.EventFileChanged:
		if e.File == nil {
			return nil, false
		}
		content := e.File.Bytes()
		return &client.File{FileStat: e.File.FileStat, Content: content, AsOf: e.Revision}, content != nil
	}
	return nil, false
}
