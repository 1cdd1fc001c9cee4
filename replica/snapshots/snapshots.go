// Package snapshots is the library's store of snapshots in files, with some
// changes.
//
//   - The library keeps a checksum of the state's file, but none of the meta
//     data beside it: one flipped digit of the index, and entries are left out
//     or applied twice. So each file begins with the meta data, under that
//     checksum, and both have to agree.
//   - It is noted beside the log that there is a snapshot, for a replica to
//     miss it.
//   - The library syncs the files and the name of their directory, but not
//     their names in it: the power lost, there may be a snapshot without a
//     state.
//   - It lets everybody read what it makes.
package snapshots

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

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

// Open opens the snapshots below a data directory, or makes a place for them.
// done is told of each that is finished, before its writer is.
func Open(dir string, logger zerolog.Logger, done func(index uint64) error) (*Store, error) {
	dir = filepath.Clean(dir)
	own := filepath.Join(dir, "snapshots")
	if err := prepare(own); err != nil {
		return nil, err
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, kept, raftlogger.New(logger))
	return &Store{SnapshotStore: files, dir: own, done: done}, err
}

// Dir is the directory that the snapshots stand in.
func (s *Store) Dir() string { return s.dir }

// prepare makes the directory of the snapshots, for nobody else to read. What a
// crash has left half done there goes, and the names of the rest are on the
// disk.
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

// LastSound is the index of the latest snapshot that can be read, 0 where there
// is none. Those behind it that are damaged are logged.
func (s *Store) LastSound(logger zerolog.Logger) (uint64, error) {
	metas, err := s.List()
	if err != nil {
		return 0, err
	}
	for _, m := range metas {
		_, r, err := s.Open(m.ID)
		if err != nil {
			logger.Error().Err(err).Str("snapshot", filepath.Join(s.dir, m.ID)).Msg("a snapshot is damaged: an earlier one and the log behind it take its place")
			continue
		}
		return m.Index, r.Close()
	}
	return 0, nil
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

// headOf is the head of a snapshot as it stands in the file: its length in four
// bytes, and JSON.
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
	if err != nil {
		return nil, errors.Join(err, begun.Cancel())
	}
	return &sink{SnapshotSink: begun, done: func() error { return s.done(index) }}, nil
}

// conceal keeps others from reading a snapshot that has been begun, and puts
// the names of its files on the disk: they are all there, and what is in them
// is synced by the library before their directory gets its name.
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
	done  func() error
	ended bool // the library ends a snapshot that has ended
}

// Write adds bytes to the state's file.
func (s *sink) Write(data []byte) (int, error) {
	if err := faultpoint.Err(faultpoint.SnapshotWrite); err != nil {
		return 0, err
	}
	return s.SnapshotSink.Write(data)
}

// Cancel gives the snapshot up.
func (s *sink) Cancel() error {
	s.ended = true
	return s.SnapshotSink.Cancel()
}

// Close finishes the snapshot, and then notes that it is there.
func (s *sink) Close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if err := faultpoint.Err(faultpoint.SnapshotFinish); err != nil {
		return errors.Join(err, s.SnapshotSink.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return s.done()
}

// List names the snapshots, latest first. The sizes are those of the states.
func (s *Store) List() ([]*raft.SnapshotMeta, error) {
	metas, err := s.SnapshotStore.List()
	for _, m := range metas {
		if _, err := trim(m); err != nil {
			return nil, err
		}
	}
	return metas, err
}

// trim takes the head off a snapshot's size, and returns it.
func trim(m *raft.SnapshotMeta) ([]byte, error) {
	head, err := headOf(m)
	m.Size -= int64(len(head))
	return head, err
}

// Open opens a snapshot whose file and meta data are as they were written.
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

func (s *Store) behindHead(meta *raft.SnapshotMeta, r io.Reader) error {
	info, err := os.Stat(filepath.Join(s.dir, meta.ID, "state.bin"))
	if err != nil {
		return err
	}
	size := meta.Size
	want, err := trim(meta)
	if err != nil {
		return err
	}
	have := make([]byte, len(want))
	if _, err := io.ReadFull(r, have); err != nil || size != info.Size() || !bytes.Equal(have, want) {
		return errors.New("meta.json does not tell what state.bin was written for")
	}
	return nil
}
