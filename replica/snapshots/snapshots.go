// Package snapshots is the library's file store of snapshots, with some
// changes:
//
//   - The library has a checksum of the state's file, but none of the meta data
//     beside it. If one digit of the index flips, entries are left out or
//     applied twice. So each file begins with the meta data, under that
//     checksum, and both must agree.
//     The library lists a snapshot with damaged meta data, and removes the
//     directory that its ID names; without an ID, all snapshots. Here that
//     snapshot is not listed, and stays; each start logs it.
//   - The log beside the snapshots records that there is one, so that a replica
//     notices a missing one.
//   - The library syncs the files and the name of their directory, but not
//     their names in it. After a loss of power there may be a snapshot without
//     a state. Here those names are synced, too.
//   - The library keeps the files of a snapshot that it could not write, for
//     example because the disk is full. Here they are removed.
//   - The library makes its files readable for all users. Here they are not.
package snapshots

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/raftlogger"
)

// kept is how many snapshots stay on disk.
const kept = 2

// Store is a raft.SnapshotStore; see the package comment.
type Store struct {
	raft.SnapshotStore
	dir  string
	done func(index uint64) error
}

// Open opens the snapshots below a data directory, or creates an empty store.
// done is called with each snapshot before its writer returns.
func Open(dir string, logger zerolog.Logger, done func(index uint64) error) (*Store, error) {
	dir = filepath.Clean(dir)
	own := filepath.Join(dir, "snapshots")
	if err := prepare(own); err != nil {
		return nil, err
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, math.MaxInt, raftlogger.New(logger)) // reap removes them
	return &Store{SnapshotStore: files, dir: own, done: done}, err
}

// Dir returns the directory of the snapshots.
func (s *Store) Dir() string { return s.dir }

// prepare creates the directory of the snapshots, unreadable for other users.
// It removes half-written snapshots that a crash has left, and syncs the names
// of the rest.
func prepare(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, os.ErrExist) {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return err
	}
	partial, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	for _, name := range partial {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return errors.Join(err, disk.SyncDir(dir), disk.SyncDir(filepath.Dir(dir)))
}

// LastSound returns the index of the latest readable snapshot, 0 without one.
// It logs damaged later ones, and all with damaged meta data.
func (s *Store) LastSound(logger zerolog.Logger) (uint64, error) {
	metas, err := s.SnapshotStore.List()
	if err := errors.Join(err, s.logUnlisted(logger)); err != nil {
		return 0, err
	}
	for _, m := range metas {
		_, r, err := s.Open(m.ID)
		if err != nil {
			logger.Error().Err(err).Str("snapshot", filepath.Join(s.dir, m.ID)).Msg("a snapshot is damaged; using an earlier one and the log behind it")
			continue
		}
		return m.Index, r.Close()
	}
	return 0, nil
}

// logUnlisted logs the snapshots that List leaves out. They stay, so that a person
// can look at them.
func (s *Store) logUnlisted(logger zerolog.Logger) error {
	metas, err := s.List()
	found, e := os.ReadDir(s.dir)
	for _, f := range found {
		if !f.IsDir() || slices.ContainsFunc(metas, func(m *raft.SnapshotMeta) bool { return m.ID == f.Name() }) {
			continue
		}
		_, r, err := s.Open(f.Name())
		if err == nil {
			err = r.Close()
		}
		logger.Error().Err(err).Str("snapshot", filepath.Join(s.dir, f.Name())).Msg("a snapshot is damaged; it is neither used nor removed")
	}
	return errors.Join(err, e)
}

// head is the meta data at the beginning of a snapshot's file.
type head struct {
	Version            raft.SnapshotVersion `json:"version"`
	ID                 string               `json:"id"`
	Index              uint64               `json:"index"`
	Term               uint64               `json:"term"`
	Configuration      raft.Configuration   `json:"configuration"`
	ConfigurationIndex uint64               `json:"configuration_index"`
}

// headOf returns the head of a snapshot in its form in the file: its length in
// four bytes, then JSON.
func headOf(m *raft.SnapshotMeta) ([]byte, error) {
	raw, err := json.Marshal(head{m.Version, m.ID, m.Index, m.Term, m.Configuration, m.ConfigurationIndex})
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...), nil
}

// Create begins a snapshot.
func (s *Store) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	begun, err := s.SnapshotStore.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	head, err := headOf(&raft.SnapshotMeta{Version: version, ID: begun.ID(), Index: index, Term: term, Configuration: conf, ConfigurationIndex: confIndex})
	if err == nil {
		err = conceal(filepath.Join(s.dir, begun.ID()+".tmp"))
	}
	if err == nil {
		_, err = begun.Write(head)
	}
	made := &sink{SnapshotSink: begun, dir: filepath.Join(s.dir, begun.ID()+".tmp"), done: func() error { return errors.Join(s.done(index), s.reap()) }}
	if err != nil {
		return nil, errors.Join(err, made.Cancel())
	}
	return made, nil
}

// conceal makes a snapshot that has begun unreadable for other users, and syncs
// the names of its files. All of them exist by then; the library syncs their
// contents before their directory gets its name.
func conceal(dir string) error {
	for name, mode := range map[string]os.FileMode{"": 0o700, "meta.json": 0o600, "state.bin": 0o600} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			return err
		}
	}
	return disk.SyncDir(dir)
}

type sink struct {
	raft.SnapshotSink
	dir   string // until it is finished
	done  func() error
	ended bool // the library may end a snapshot twice
}

// Write adds bytes to the state's file.
func (s *sink) Write(data []byte) (int, error) {
	if err := faultpoint.Err(faultpoint.SnapshotWrite); err != nil {
		return 0, err
	}
	return s.SnapshotSink.Write(data)
}

// Cancel discards the snapshot.
func (s *sink) Cancel() error {
	s.ended = true
	_ = s.SnapshotSink.Cancel() // it writes what it has buffered; if that fails, it stops there
	return s.discard()
}

// discard removes the files of an unfinished snapshot. The library may have left
// the large one open: truncating it frees the space now.
func (s *sink) discard() error {
	f, err := os.OpenFile(filepath.Join(s.dir, "state.bin"), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		err = f.Close()
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Close finishes the snapshot, and then records that it exists.
func (s *sink) Close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if err := faultpoint.Err(faultpoint.SnapshotFinish); err != nil {
		return errors.Join(err, s.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return errors.Join(err, s.discard())
	}
	return s.done()
}

// List returns the snapshots with undamaged meta data, latest first. The sizes
// are the states' sizes.
func (s *Store) List() ([]*raft.SnapshotMeta, error) {
	metas, err := s.SnapshotStore.List()
	return slices.DeleteFunc(metas, func(m *raft.SnapshotMeta) bool {
		f, err := os.Open(filepath.Join(s.dir, m.ID, "state.bin"))
		if err != nil {
			return true
		}
		defer f.Close()
		return s.behindHead(m, f) != nil
	}), err
}

// reap removes all but the latest snapshots.
func (s *Store) reap() error {
	metas, err := s.List()
	for _, m := range metas[min(kept, len(metas)):] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, m.ID)))
	}
	return err
}

// Open opens a snapshot and checks its file and meta data.
func (s *Store) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	if err := s.behindHead(meta, r); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("snapshot %s: %w", id, err), r.Close())
	}
	return meta, r, nil
}

// behindHead reads the head of a snapshot's file, and subtracts it from the size
// in the meta data. They must agree.
func (s *Store) behindHead(meta *raft.SnapshotMeta, r io.Reader) error {
	info, err := os.Stat(filepath.Join(s.dir, meta.ID, "state.bin"))
	if err != nil {
		return err
	}
	want, err := headOf(meta)
	if err != nil {
		return err
	}
	size := meta.Size
	meta.Size -= int64(len(want))
	have := make([]byte, len(want))
	if _, err := io.ReadFull(r, have); err != nil || size != info.Size() || !bytes.Equal(have, want) {
		return errors.New("meta.json does not match the head of state.bin")
	}
	return nil
}
