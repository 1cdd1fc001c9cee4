package recipe

import (
	"context"
	"errors"
	"iter"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// present yields the file at a path as it is now, then what becomes of it, for
// ever; nil stands for no file. Versions that were overwritten at once may be
// left out. An error is yielded last.
func present(ctx context.Context, c *client.Client, path string) iter.Seq2[*client.File, error] {
	return func(yield func(*client.File, error) bool) {
		told, last := false, uint64(0) // the revision told last, 0 of no file
		tell := func(f *client.File) bool {
			revision := uint64(0)
			if f != nil {
				revision = f.Revision
			}
			if told && last == revision {
				return true
			}
			told, last = true, revision
			return yield(f, nil)
		}
		for {
			file, after, err := find(ctx, c, path)
			if err != nil {
				yield(nil, err)
				return
			}
			if !tell(file) {
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
				if file, ok := become(&e); ok && !tell(file) {
					return
				}
			}
		}
	}
}

var fileEvents = lockapi.EventTypes(lockapi.SubjectFile)

// find reads a file, nil where there is none, and says at which revision that
// was so.
func find(ctx context.Context, c *client.Client, path string) (_ *client.File, asOf uint64, err error) {
	file, err := c.Get(ctx, path)
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == client.ErrNotFound && refused.Revision > 0 {
		return nil, refused.Revision, nil
	}
	return &file, file.AsOf, err
}

// become is what an event makes of its file, nil where that is gone. It is not
// told of an event whose content is no longer kept: another one follows.
func become(e *client.Event) (*client.File, bool) {
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
