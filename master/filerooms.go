package master

import (
	"fmt"

	"github.com/stoutlock/stout/replica/state"
)

// Calls that write one file share one room: that of the longest, and of what is
// there. So a loop of compare-and-sets by many writers takes the room of one file,
// and the room of a file that is deleted stays taken while a call that may make it
// anew is in the log.
//
// A sequential file has no name yet: each call has a room of its own, which ends
// with the answer, a moment after the file itself is counted.

// fileRooms counts files for an accounting, whose mutex guards it.
type fileRooms struct {
	present map[string]int64     // bytes of content of each file
	rooms   map[string]*fileRoom // of files that calls in the log may write
	choices map[string][]*choice // those that may write a file
	unnamed int                  // sequential files so far, for the names of their rooms
}

// fileRoom is what calls in the log may make of a file.
type fileRoom struct {
	calls int
	most  int64 // bytes of content
}

func newFileRooms() fileRooms {
	return fileRooms{present: map[string]int64{}, rooms: map[string]*fileRoom{}, choices: map[string][]*choice{}}
}

// usage is what a path takes, with what calls under way may make of it, but for
// choices.
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

// longest is the most content that a path has, or may have by calls under way, be
// they choices or not.
func (f *fileRooms) longest(path string) int64 {
	most := f.usage(path).content
	for _, c := range f.choices[path] {
		most = max(most, c.branches[0][path], c.branches[1][path])
	}
	return most
}

// more is what a further call that may write so much would add to that.
func (f *fileRooms) more(path string, content int64) usage {
	return moreThan(f.usage(path), path, content)
}

// moreThan is what so much content at a path adds to what that takes now.
func moreThan(now usage, path string, content int64) usage {
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

// needs are the rooms that a branch needs, with the bytes of content of each.
func (f *fileRooms) needs(branch []state.Step) map[string]int64 {
	needs := map[string]int64{}
	for _, step := range branch {
		w, ok := step.(*state.Write)
		if !ok {
			continue
		}
		name := w.Path
		if w.Sequential {
			f.unnamed++
			name = fmt.Sprintf("%s\x00%0*d", w.Path, state.SequenceDigits-1, f.unnamed) // as long as the file's; no path has a NUL
		}
		needs[name] = max(needs[name], int64(len(w.Content)))
	}
	return needs
}

// recount counts what a change makes of a path's use. a.mu is held.
func (a *accounting) recount(path string, change func()) {
	f := &a.files
	a.countPath(path, f.usage(path), -1)
	change()
	a.countPath(path, f.usage(path), 1)
}

// countPath counts, or ceases to, what a path takes and choices add to that.
func (a *accounting) countPath(path string, now usage, times int64) {
	a.cell.add(now, times)
	for _, c := range a.files.choices[path] {
		a.cell.add(c.usage(), -1)
		c.count(path, now, times)
		a.cell.add(c.usage(), 1)
	}
}

// fileIs and fileGone count a file as it is now. a.mu is held.
func (a *accounting) fileIs(file *state.File) {
	a.recount(file.Path, func() { a.files.present[file.Path] = int64(len(file.Content)) })
}

func (a *accounting) fileGone(file *state.File) {
	a.recount(file.Path, func() { delete(a.files.present, file.Path) })
}
