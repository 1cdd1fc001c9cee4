package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/datadir"
)

// dataDir is the data directory of the replica, below the top of a disk. Its
// parent directory does not exist either before the first start.
func dataDir(top string) string { return filepath.Join(top, "stout", "r1") }

// stores are the stores of an open data directory.
type stores struct{ datadir.Stores }

func open(top string, wal bool) (*stores, error) {
	d, err := datadir.Open(dataDir(top), "crash", "r1")
	if err != nil {
		return nil, err
	}
	s, err := d.Open(wal, zerolog.Nop())
	return &stores{s}, err
}

// keys are the keys of votes in the library.
var keys = []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand"}

// contents reads everything that the stores hold.
func (s *stores) contents() (*held, error) {
	h := &held{founded: s.Identity.Founded, entries: map[uint64]string{}, votes: map[string]string{}}
	first, err := s.Logs.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := s.Logs.LastIndex()
	if err != nil {
		return nil, err
	}
	for i := max(first, 1); i <= last; i++ {
		var l raft.Log
		switch err := s.Logs.GetLog(i, &l); {
		case err == nil:
			h.entries[i] = fingerprint(&l)
		case !errors.Is(err, raft.ErrLogNotFound):
			return nil, err
		}
	}
	for _, k := range keys {
		if v, err := s.Votes.Get([]byte(k)); err == nil {
			h.votes[k] = string(v)
		}
	}
	h.snapshot, h.content, err = s.latest()
	return h, err
}

// latest returns the snapshot from which a replica starts: the latest readable
// one.
func (s *stores) latest() (index uint64, content string, err error) {
	metas, err := s.Snapshots.List()
	if err != nil {
		return 0, "", err
	}
	for _, m := range metas {
		meta, r, err := s.Snapshots.Open(m.ID)
		if err != nil {
			continue
		}
		raw, err := io.ReadAll(r)
		return meta.Index, sum(raw), errors.Join(err, r.Close())
	}
	return 0, "", nil
}

// observe opens what a crash left and returns what it holds.
func observe(top string, wal bool) (*held, error) {
	s, err := open(top, wal)
	if err != nil && strings.Contains(err.Error(), "quarantined.txt") {
		why, err := os.ReadFile(filepath.Join(dataDir(top), "quarantined.txt"))
		return &held{quarantined: strings.TrimSpace(string(why))}, err
	}
	if err != nil {
		return nil, err
	}
	h, err := s.contents()
	return h, errors.Join(err, s.Close())
}

func fingerprint(l *raft.Log) string {
	return fmt.Sprintf("%d/%d/%s", l.Term, l.Type, sum(l.Data, l.Extensions))
}

func sum(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}
