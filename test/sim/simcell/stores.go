package simcell

import (
	"io"
	"runtime"
	"time"

	"github.com/hashicorp/raft"
)

// keyVotedFor is the library's key for the candidate of the last vote.
const keyVotedFor = "LastVoteCand"

// watchedLogs is a log that records its content in the disk.
type watchedLogs struct {
	raft.LogStore
	d *mounted
}

func (s watchedLogs) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s watchedLogs) StoreLogs(all []*raft.Log) error {
	s.d.w.oracle.goesBy(s.d)
	s.d.w.oracle.goesOn(s.d, all[0].Index)
	copies := make([]raft.Log, len(all))
	for i, l := range all {
		copies[i] = *l
	}
	for time.Sleep(s.d.heavy); s.d.hangs && !s.d.p.dead(); {
		time.Sleep(250 * time.Microsecond)
	}
	s.d.begun = max(s.d.begun, all[len(all)-1].Index)
	if err := s.did(s.LogStore.StoreLogs(all)); err != nil {
		return err
	}
	for _, l := range copies {
		s.d.has(l)
		s.d.high = max(s.d.high, l.Index)
		if s.d.low == 0 || l.Index < s.d.low {
			s.d.low = l.Index
		}
	}
	return nil
}

func (s watchedLogs) DeleteRange(from, to uint64) error {
	err := s.did(s.LogStore.DeleteRange(from, to))
	if err != nil {
		return err
	}
	for i := from; i <= to; i++ {
		delete(s.d.logs, i)
		delete(s.d.confs, i)
	}
	if s.d.low, err = s.FirstIndex(); err == nil {
		s.d.high, err = s.LastIndex()
	}
	return err
}

// did returns the error of a write, or errCrashed if the process has died
// since: another process may have the disk by now.
func (s watchedLogs) did(err error) error {
	if err == nil && s.d.p.dead() {
		return errCrashed
	}
	return err
}

// watchedVotes ends the goroutine if the process has died. The library panics
// if it can't write a vote or a term, which would end the real process, too.
type watchedVotes struct {
	raft.StableStore
	d *mounted
}

func (s watchedVotes) Set(key, value []byte) error {
	err := s.StableStore.Set(key, value)
	if s.d.p.dead() {
		runtime.Goexit()
	}
	s.d.votes[string(key)] = append([]byte(nil), value...)
	return err
}

func (s watchedVotes) SetUint64(key []byte, value uint64) error {
	err := s.StableStore.SetUint64(key, value)
	if s.d.p.dead() {
		runtime.Goexit()
	}
	return err
}

// watchedSnapshots records the latest finished snapshot. A replica may finish
// its own snapshot after a later one from a leader.
type watchedSnapshots struct {
	raft.SnapshotStore
	d *mounted
}

func (s watchedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, conf, confIndex, t)
	if err != nil {
		return nil, err
	}
	s.d.begun = max(s.d.begun, index)
	return watchedSink{sink, s.d, ending{index, conf}}, nil
}

// Open records that the process reads a snapshot, to restore it or to send it.
func (s watchedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, content, err := s.SnapshotStore.Open(id)
	if err == nil {
		s.d.p.restored = max(s.d.p.restored, meta.Index)
	}
	return meta, content, err
}

type watchedSink struct {
	raft.SnapshotSink
	d   *mounted
	end ending
}

func (s watchedSink) Close() error {
	err := s.SnapshotSink.Close()
	if err == nil && !s.d.p.dead() {
		if s.end.index >= s.d.snapshot.index {
			s.d.snapshot = s.end
		}
		s.d.w.ambush(s.d.p.m)
	}
	return err
}
