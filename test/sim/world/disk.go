package world

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
)

// disk is what a machine does not forget: what was synced, and nothing else.
type disk struct {
	w         *world
	logs      map[uint64]raft.Log
	low, high uint64
	votes     map[string][]byte
	snapshots []*savedSnapshot // oldest first
	who       admission.Identity
	worst     time.Duration // a sync takes so long at most
	heavy     time.Duration // and one of the log so much longer
}

func newDisk(w *world) *disk {
	return &disk{w: w, logs: map[uint64]raft.Log{}, votes: map[string][]byte{}, worst: 2 * time.Millisecond}
}

var (
	errCrashed  = errors.New("the machine has crashed")
	errNotFound = errors.New("not found") // the text that the library looks for
)

// mounted is a disk as one process sees it: of a process that has died nothing
// more is written.
type mounted struct {
	*disk
	p *process
}

// sync takes its time and reports whether the write is on the disk. Where the
// process dies meanwhile it may be there all the same.
func (d mounted) sync() (written bool, err error) {
	if d.p.dead() {
		return false, errCrashed
	}
	if m := d.p.m; m.fatal > 0 {
		if m.fatal--; m.fatal == 0 {
			m.crash()
			d.w.later(m.afterCrash, func() { m.restart(m.reboots) })
			return d.w.chance(2), errCrashed
		}
	}
	time.Sleep(between(d.w.rng, 50*time.Microsecond, d.worst))
	if d.p.dead() {
		return d.w.chance(2) && d.p.m.process == nil, errCrashed
	}
	d.p.awake()
	return true, nil
}

func (d mounted) FirstIndex() (uint64, error) { return d.low, nil }
func (d mounted) LastIndex() (uint64, error)  { return d.high, nil }

func (d mounted) GetLog(index uint64, out *raft.Log) error {
	l, ok := d.logs[index]
	if !ok {
		return raft.ErrLogNotFound
	}
	*out = l
	return nil
}

func (d mounted) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

func (d mounted) StoreLogs(all []*raft.Log) error {
	copies := make([]raft.Log, len(all))
	for i, l := range all {
		copies[i] = *l
	}
	time.Sleep(d.heavy)
	written, err := d.sync()
	if written {
		for _, l := range copies {
			d.logs[l.Index] = l
			d.w.judge.wrote(l)
			d.high = max(d.high, l.Index)
			if d.low == 0 || l.Index < d.low {
				d.low = l.Index
			}
		}
	}
	return err
}

func (d mounted) DeleteRange(from, to uint64) error {
	written, err := d.sync()
	if !written {
		return err
	}
	for i := from; i <= to; i++ {
		delete(d.logs, i)
	}
	d.low, d.high = 0, 0
	for i := range d.logs {
		d.high = max(d.high, i)
		if d.low == 0 || i < d.low {
			d.low = i
		}
	}
	return err
}

// Set ends its goroutine where the process has died: the library panics when a
// vote or a term cannot be written, which would end the real process as well.
func (d mounted) Set(key, value []byte) error {
	kept := bytes.Clone(value)
	written, err := d.sync()
	if written {
		d.votes[string(key)] = kept
	}
	if err != nil {
		runtime.Goexit()
	}
	return nil
}

func (d mounted) Get(key []byte) ([]byte, error) {
	v, ok := d.votes[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return bytes.Clone(v), nil
}

func (d mounted) SetUint64(key []byte, v uint64) error {
	return d.Set(key, binary.BigEndian.AppendUint64(nil, v))
}

func (d mounted) GetUint64(key []byte) (uint64, error) {
	v, err := d.Get(key)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// save is replica.Parts.Save.
func (d mounted) save(who admission.Identity) error {
	written, err := d.sync()
	if written {
		d.who = who
	}
	return err
}

// savedSnapshot is one whole snapshot.
type savedSnapshot struct {
	meta raft.SnapshotMeta
	data []byte
}

func (d mounted) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	id := fmt.Sprintf("%d-%d-%d", term, index, d.w.now())
	return &sink{d: d, saved: savedSnapshot{meta: raft.SnapshotMeta{
		Version: version, ID: id, Index: index, Term: term, Configuration: conf, ConfigurationIndex: confIndex,
	}}}, nil
}

func (d mounted) List() ([]*raft.SnapshotMeta, error) {
	var out []*raft.SnapshotMeta
	for i := len(d.snapshots) - 1; i >= 0; i-- {
		meta := d.snapshots[i].meta
		out = append(out, &meta)
	}
	return out, nil
}

func (d mounted) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	for _, s := range d.snapshots {
		if s.meta.ID == id {
			meta := s.meta
			return &meta, io.NopCloser(bytes.NewReader(s.data)), nil
		}
	}
	return nil, nil, errNotFound
}

// sink is a snapshot that is being written.
type sink struct {
	d         mounted
	saved     savedSnapshot
	buf       bytes.Buffer
	cancelled bool
}

func (s *sink) Write(p []byte) (int, error) { return s.buf.Write(p) }
func (s *sink) ID() string                  { return s.saved.meta.ID }
func (s *sink) Cancel() error               { s.cancelled = true; return nil }

func (s *sink) Close() error {
	if s.cancelled {
		return nil
	}
	written, err := s.d.sync()
	if !written {
		return err
	}
	s.saved.data = s.buf.Bytes()
	s.saved.meta.Size = int64(len(s.saved.data))
	s.d.snapshots = append(s.d.snapshots, &s.saved)
	slices.SortFunc(s.d.snapshots, func(a, b *savedSnapshot) int {
		return cmp.Or(cmp.Compare(a.meta.Term, b.meta.Term), cmp.Compare(a.meta.Index, b.meta.Index), cmp.Compare(a.meta.ID, b.meta.ID))
	})
	if n := len(s.d.snapshots); n > 2 {
		s.d.snapshots = s.d.snapshots[n-2:]
	}
	s.d.w.ambush(s.d.p.m)
	return err
}
