package master

import (
	"fmt"
	"slices"

	"github.com/stoutlock/stout/replica/state"
)

// A call that may make a file, or a longer one, reserves the room for it before
// it is proposed, and keeps that until it is answered. Calls that write one file
// share one room: that of the longest, and of what is there. So a loop of
// compare-and-sets by many writers takes the room of one file, and the room of a
// file that is deleted stays taken while a call that may make it anew is in the
// log.
//
// A sequential file has no name yet: each call has a room of its own, which ends
// with the answer, a moment after the file itself is counted.

// fileRooms counts files for an accounting, whose mutex guards it.
type fileRooms struct {
	present map[string]int64     // bytes of content of each file
	rooms   map[string]*fileRoom // of files that calls in the log may write
	unnamed int                  // sequential files so far, for the names of their rooms
}

// fileRoom is what calls in the log may make of a file.
type fileRoom struct {
	calls int
	most  int64 // bytes of content
}

func newFileRooms() fileRooms {
	return fileRooms{present: map[string]int64{}, rooms: map[string]*fileRoom{}}
}

// usage is what a path takes, with what calls under way may make of it.
func (f *fileRooms) usage(path string) usage {
	content, there := f.present[path]
	if r := f.rooms[path]; r != nil {
		content, there = max(content, r.most), true
	}
	if !there {
		return usage{}
	}
	return fileUsage(path, content)
}

// more is what a further call that may write so much would add to that.
func (f *fileRooms) more(path string, content int64) usage {
	now := f.usage(path)
	more := fileUsage(path, max(content, now.content))
	more.add(now, -1)
	return more
}

// enter has a call share the room of a path, and leave ends that.
func (f *fileRooms) enter(path string, content int64) {
	r := f.rooms[path]
	if r == nil {
		r = &fileRoom{}
		f.rooms[path] = r
	}
	r.calls++
	r.most = max(r.most, content)
}

func (f *fileRooms) leave(path string) {
	r := f.rooms[path]
	if r.calls--; r.calls == 0 {
		delete(f.rooms, path)
	}
}

// names are the rooms that a transaction needs, with the bytes of content of
// each.
func (f *fileRooms) names(op *state.Transaction) map[string]int64 {
	needs := map[string]int64{}
	for _, step := range slices.Concat(op.Then, op.Else) {
		w, ok := step.(*state.Write)
		if !ok {
			continue
		}
		name := w.Path
		if w.Sequential {
			f.unnamed++
			name = fmt.Sprintf("%s\x00%d", w.Path, f.unnamed) // no path has a NUL
		}
		needs[name] = max(needs[name], int64(len(w.Content)))
	}
	return needs
}

// reserveFiles takes the room for what a transaction may write. leave is to be
// called when it is answered, unless there is no room, which err says. What adds
// nothing to what is there needs none.
func (a *accounting) reserveFiles(op *state.Transaction) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	needs := a.files.names(op)
	if len(needs) == 0 {
		return func() {}, nil
	}
	var more usage
	for path, content := range needs {
		more.add(a.files.more(path, content), 1)
	}
	if e := a.exceeds(nil, more); e != nil {
		return nil, a.refuse(e)
	}
	for path, content := range needs {
		a.files.enter(path, content)
	}
	a.cell.add(more, 1)
	return func() { a.releaseFiles(needs) }, nil
}

func (a *accounting) releaseFiles(needs map[string]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for path := range needs {
		a.recount(path, func() { a.files.leave(path) })
	}
}

// recount counts what a change makes of a path's use. a.mu is held.
func (a *accounting) recount(path string, change func()) {
	a.cell.add(a.files.usage(path), -1)
	change()
	a.cell.add(a.files.usage(path), 1)
}

// fileIs and fileGone count a file as it is now. a.mu is held.
func (a *accounting) fileIs(file *state.File) {
	a.recount(file.Path, func() { a.files.present[file.Path] = int64(len(file.Content)) })
}

func (a *accounting) fileGone(file *state.File) {
	a.recount(file.Path, func() { delete(a.files.present, file.Path) })
}
