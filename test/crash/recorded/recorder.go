package recorded

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stoutlock/stout/test/crash/powerloss"
)

// Disk is a directory below which everything is noted. Its methods are safe for
// concurrent use.
type Disk struct {
	top  string
	sync func() error // what each sync waits for

	mu     sync.Mutex
	ids    map[string]powerloss.ID // of what is there now, by path; nil when nothing is noted any more
	last   powerloss.ID
	events []powerloss.Event
}

// disks are those in use, by their directories.
var disks sync.Map

// Begin begins to note what is done below a directory, which holds what the tree
// does, behind the given events. Each sync calls the function while it is under way,
// and returns its error as its own.
func Begin(top string, t *powerloss.Tree, before []powerloss.Event, sync func() error) *Disk {
	d := &Disk{top: top, sync: sync, ids: map[string]powerloss.ID{top: powerloss.Top}, last: t.Last(), events: slices.Clone(before)}
	t.Walk(func(path string, id powerloss.ID, _ bool) { d.ids[filepath.Join(top, path)] = id })
	for _, e := range before {
		d.last = max(d.last, e.Node)
	}
	disks.Store(top, d)
	return d
}

// End returns what was noted, and notes no more: whoever goes on to write to the
// directory is a ghost.
func (d *Disk) End() []powerloss.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	disks.Delete(d.top)
	d.ids = nil
	return d.events
}

// Mark notes something of the caller's.
func (d *Disk) Mark(v any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(powerloss.Event{Kind: powerloss.Mark, Mark: v})
}

// of is the disk of a path; nil where it is on none.
func of(path string) *Disk {
	for dir := path; ; dir = filepath.Dir(dir) {
		if d, ok := disks.Load(dir); ok {
			return d.(*Disk)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func (d *Disk) note(e powerloss.Event) {
	if d.ids != nil {
		d.events = append(d.events, e)
	}
}

// id is that of a path that is there.
func (d *Disk) id(path string) powerloss.ID {
	id, ok := d.ids[path]
	if !ok {
		panic(fmt.Sprintf("%s was made in a way that is not noted", path))
	}
	return id
}

// named does something to a name, and where that works notes it, if its disk is one.
// Nobody else changes a name of the disk meanwhile.
func named(path string, do func() error, note func(*Disk)) error {
	d := of(path)
	if d == nil {
		return do()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := do(); err != nil || d.ids == nil {
		return err
	}
	note(d)
	return nil
}

// made notes a new file or directory.
func (d *Disk) made(path string, dir bool) {
	d.last++
	d.ids[path] = d.last
	d.note(powerloss.Event{Kind: powerloss.Make, Node: d.last, Dir: d.id(filepath.Dir(path)), Name: filepath.Base(path), IsDir: dir})
}

// renamed notes a new name of a file, or of a directory with all that is in it.
func (d *Disk) renamed(from, to string) {
	if filepath.Dir(from) != filepath.Dir(to) {
		panic(fmt.Sprintf("%s becomes %s: only what stays in its directory can be noted", from, to))
	}
	id := d.id(from)
	d.note(powerloss.Event{Kind: powerloss.Rename, Node: id, Dir: d.id(filepath.Dir(from)), Name: filepath.Base(from), To: filepath.Base(to)})
	delete(d.ids, from)
	d.ids[to] = id
	below := map[string]powerloss.ID{}
	for path, id := range d.ids {
		if rest, ok := strings.CutPrefix(path, from+string(filepath.Separator)); ok {
			below[filepath.Join(to, rest)] = id
			delete(d.ids, path)
		}
	}
	for path, id := range below {
		d.ids[path] = id
	}
}

func (d *Disk) removed(path string) {
	d.note(powerloss.Event{Kind: powerloss.Remove, Node: d.id(path), Dir: d.id(filepath.Dir(path)), Name: filepath.Base(path)})
	delete(d.ids, path)
}

// changed notes that a file is being changed.
func (f *File) changed(e powerloss.Event) {
	if f.disk == nil {
		return
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	e.Node, e.Data = f.id, bytes.Clone(e.Data)
	f.disk.note(e)
}

// Sync takes what the disk's does, and keeps nothing but the record.
func (f *File) Sync() error {
	if f.disk == nil {
		return nil
	}
	f.disk.mu.Lock()
	began := len(f.disk.events)
	f.disk.mu.Unlock()
	if err := f.disk.sync(); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.note(powerloss.Event{Kind: powerloss.Sync, Node: f.id, Began: began})
	return nil
}
