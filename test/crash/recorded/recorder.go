package recorded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stoutlock/stout/test/crash/powerloss"
)

// Mounted is a disk at a directory. Its methods are safe for concurrent use.
type Mounted struct {
	top  string
	sync func() error

	mu   sync.Mutex
	disk *powerloss.Disk         // nil when it is unmounted
	ids  map[string]powerloss.ID // of what is there now, by path
}

// mounts are those in use, and those that ghosts still use, by their
// directories.
var mounts sync.Map

// Mount makes a directory of what is on a disk, and does to the disk what is
// done there. Each sync calls the function while it is under way, and returns
// its error as its own.
func Mount(top string, disk *powerloss.Disk, sync func() error) (*Mounted, error) {
	seen := disk.Seen()
	if err := os.Mkdir(top, 0o700); err != nil {
		return nil, err
	}
	if err := seen.Store(top); err != nil {
		return nil, err
	}
	m := &Mounted{top: top, disk: disk, sync: sync, ids: map[string]powerloss.ID{top: powerloss.Top}}
	seen.Walk(func(path string, id powerloss.ID, _ bool) { m.ids[filepath.Join(top, path)] = id })
	mounts.Store(top, m)
	return m, nil
}

// Unmount parts the directory from the disk: whoever still writes there is a
// ghost, and gets no new names.
func (m *Mounted) Unmount() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk = nil
}

// Remove removes the directory of an unmounted disk.
func (m *Mounted) Remove() error {
	mounts.Delete(m.top)
	return os.RemoveAll(m.top)
}

// Mark notes something of the caller's.
func (m *Mounted) Mark(v any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(powerloss.Event{Kind: powerloss.Mark, Mark: v})
}

var errUnmounted = errors.New("the disk is unmounted")

// at is what is mounted at a path; nil where nothing is.
func at(path string) *Mounted {
	for dir := path; ; dir = filepath.Dir(dir) {
		if m, ok := mounts.Load(dir); ok {
			return m.(*Mounted)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func (m *Mounted) note(e powerloss.Event) {
	if m.disk != nil {
		m.disk.Do(e)
	}
}

// id is that of a path that is there.
func (m *Mounted) id(path string) powerloss.ID {
	id, ok := m.ids[path]
	if !ok {
		panic(fmt.Sprintf("%s was made in a way that is not noted", path))
	}
	return id
}

// named does something to a name, and where that works notes it, if its disk is
// one. Nobody else changes a name of the disk meanwhile.
func named(path string, do func() error, note func(*Mounted)) error {
	m := at(path)
	if m == nil {
		return do()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disk == nil {
		return errUnmounted
	}
	if err := do(); err != nil {
		return err
	}
	note(m)
	return nil
}

// made notes a new file or directory.
func (m *Mounted) made(path string, dir bool) {
	id := m.disk.NewID()
	m.ids[path] = id
	m.note(powerloss.Event{Kind: powerloss.Make, Node: id, Dir: m.id(filepath.Dir(path)), Name: filepath.Base(path), IsDir: dir})
}

// renamed notes a new name of a file, or of a directory with all that is in it.
func (m *Mounted) renamed(from, to string) {
	if filepath.Dir(from) != filepath.Dir(to) {
		panic(fmt.Sprintf("%s becomes %s: only what stays in its directory can be noted", from, to))
	}
	id := m.id(from)
	m.note(powerloss.Event{Kind: powerloss.Rename, Node: id, Dir: m.id(filepath.Dir(from)), Name: filepath.Base(from), To: filepath.Base(to)})
	ids := map[string]powerloss.ID{}
	for path, id := range m.ids {
		if rest, ok := strings.CutPrefix(path, from+string(filepath.Separator)); ok {
			path = filepath.Join(to, rest)
		}
		ids[path] = id
	}
	delete(ids, from)
	ids[to] = id
	m.ids = ids
}

func (m *Mounted) removed(path string) {
	m.note(powerloss.Event{Kind: powerloss.Remove, Node: m.id(path), Dir: m.id(filepath.Dir(path)), Name: filepath.Base(path)})
	delete(m.ids, path)
}

// changed notes that a file is being changed.
func (f *File) changed(e powerloss.Event) {
	if f.mount == nil {
		return
	}
	f.mount.mu.Lock()
	defer f.mount.mu.Unlock()
	e.Node, e.Data = f.id, bytes.Clone(e.Data)
	f.mount.note(e)
}

// Sync takes what the mount's does, and keeps nothing but the record.
func (f *File) Sync() error {
	if f.mount == nil {
		return nil
	}
	began, err := f.mount.length()
	if err == nil {
		err = f.mount.sync()
	}
	if err != nil {
		return err
	}
	f.mount.mu.Lock()
	defer f.mount.mu.Unlock()
	f.mount.note(powerloss.Event{Kind: powerloss.Sync, Node: f.id, Began: began})
	return nil
}

func (m *Mounted) length() (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disk == nil {
		return 0, errUnmounted
	}
	return m.disk.Len(), nil
}
