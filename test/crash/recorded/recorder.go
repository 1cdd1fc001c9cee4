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
	disk *powerloss.Disk         // nil once unmounted
	ids  map[string]powerloss.ID // of the present nodes, by path
}

// mounts holds, by directory, the mounted disks and the detached ones that
// leftover goroutines still use.
var mounts sync.Map

// Mount creates a directory with the content of a disk and repeats on the disk
// every operation done there. Each sync calls the function while it is under
// way and returns its error.
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

// Unmount detaches the directory from the disk. Goroutines that still write
// there get no new names.
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

// Mark records a value of the caller's.
func (m *Mounted) Mark(v any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(powerloss.Event{Kind: powerloss.Mark, Mark: v})
}

var errUnmounted = errors.New("the disk is unmounted")

// at returns what is mounted at a path, or nil.
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

// id returns the ID of an existing path.
func (m *Mounted) id(path string) powerloss.ID {
	id, ok := m.ids[path]
	if !ok {
		panic(fmt.Sprintf("%s was created in a way that is not recorded", path))
	}
	return id
}

// named changes a name and, on success, records the change if the path is on a
// mounted disk. Other changes of names on that disk wait.
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

// made records a new file or directory.
func (m *Mounted) made(path string, dir bool) {
	id := m.disk.NewID()
	m.ids[path] = id
	m.note(powerloss.Event{Kind: powerloss.Make, Node: id, Dir: m.id(filepath.Dir(path)), Name: filepath.Base(path), IsDir: dir})
}

// renamed records a new name of a file, or of a directory with everything
// below.
func (m *Mounted) renamed(from, to string) {
	if filepath.Dir(from) != filepath.Dir(to) {
		panic(fmt.Sprintf("%s becomes %s: a move to another directory can't be recorded", from, to))
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

// changed records a change of a file.
func (f *File) changed(e powerloss.Event) {
	if f.mount == nil {
		return
	}
	f.mount.mu.Lock()
	defer f.mount.mu.Unlock()
	e.Node, e.Data = f.id, bytes.Clone(e.Data)
	f.mount.note(e)
}

// Sync runs the mount's sync function and records the sync. It makes nothing
// durable.
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
