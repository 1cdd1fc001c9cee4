package simcell

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/test/crash/powerloss"
	"github.com/stoutlock/stout/test/crash/recorded"
)

// disk is a machine's durable memory. The stores on it are real: the data
// directory, the write-ahead log, raft-boltdb with bbolt, and the library's
// snapshots. They are compiled with package recorded in place of os, so that
// the disk knows what was synced. A crash may be a loss of power, which keeps
// any sectors and any names of the unsynced rest. The next process then opens
// what is left as a replica does. bbolt is not simulated, as it needs a real
// file to map. Its file is in a directory of the host, and no run depends on
// it.
type disk struct {
	w     *world
	power *powerloss.Disk
	used  int           // number of mounts
	least time.Duration // added to the time of each sync
	worst time.Duration // upper bound on a sync
	heavy time.Duration // added to the time of storing entries
	hangs bool          // storing entries never ends

	// These are what the process that has the disk, or last had it, found and
	// stored.
	logs      map[uint64]raft.Log
	confs     map[uint64]raft.Configuration // decoded from logs
	snapshot  ending
	low, high uint64
	begun     uint64 // highest index of entries, snapshots, and writes of them under way
	knew      uint64 // the revision that earlier processes had applied
	votes     map[string][]byte
	who       admission.Identity
}

// ending is the end of the latest snapshot.
type ending struct {
	index uint64
	conf  raft.Configuration
}

func newDisk(w *world) *disk {
	w.disks++
	return &disk{
		w: w, power: powerloss.NewDisk(powerloss.NewTree()), worst: 2 * time.Millisecond, used: 1000 * w.disks,
		logs: map[uint64]raft.Log{}, confs: map[uint64]raft.Configuration{}, votes: map[string][]byte{},
	}
}

// has records that an entry is on the disk.
func (d *disk) has(l raft.Log) {
	d.logs[l.Index] = l
	delete(d.confs, l.Index)
	if l.Type == raft.LogConfiguration {
		d.confs[l.Index] = raft.DecodeConfiguration(l.Data)
	}
	d.w.oracle.wrote(l)
	d.w.oracle.held(l, d.who.ServerID())
}

var errCrashed = errors.New("the machine has crashed")

// mounted is a disk in use by one process. Once that process has died, its
// writes are dropped.
type mounted struct {
	*disk
	p    *process
	top  string
	at   *recorded.Mounted
	data *datadir.Dir
	wal  bool // whether this process uses a write-ahead log
	log  zerolog.Logger
}

// mount gives a process the machine's disk.
func (d *disk) mount(p *process) *mounted {
	d.used++
	m := &mounted{disk: d, p: p, top: filepath.Join(d.w.opts.Dir, fmt.Sprintf("%d-%d", d.w.opts.Seed, d.used))}
	var err error
	if m.at, err = recorded.Mount(m.top, d.power, m.sync); err != nil {
		panic(err) // an error of the host
	}
	return m
}

// unmount takes the disk from a process that has died. If only the process
// died, its unsynced writes are there; if the power was lost, any of them are.
func (d *mounted) unmount() {
	d.at.Unmount()
	left := d.power.Seen()
	if d.w.chance(3) {
		d.w.stats.check("process killed")
	} else {
		d.w.stats.check("power lost")
		left = d.power.Lose(d.w.rng)
		d.power = powerloss.NewDisk(left)
	}
	var who admission.Identity
	if raw, ok := left.Read(filepath.Join("data", "replica.json")); ok && json.Unmarshal(raw, &who) != nil {
		d.w.fail("replica.json is torn: %s", raw)
	}
	d.who = who
}

// openDir opens the process's data directory.
func (d *mounted) openDir(log zerolog.Logger) (err error) {
	d.wal, d.log = !d.w.chance(8), log
	d.data, err = datadir.Open(filepath.Join(d.top, "data"), "sim", d.p.m.id)
	if err == nil {
		d.who = d.data.Identity()
	}
	return err
}

// save replaces Save of the stores.
func (d *mounted) save(who admission.Identity) error {
	if err := d.data.Save(who); err != nil {
		return err
	}
	if d.p.dead() {
		return errCrashed
	}
	d.who = who
	return nil
}

// open opens the stores.
func (d *mounted) open() (datadir.Stores, error) {
	stores, err := d.data.Open(d.wal, d.log)
	if err != nil {
		return stores, err
	}
	if err := d.look(stores); err != nil {
		return stores, errors.Join(err, stores.Close())
	}
	stores.Logs, stores.Votes, stores.Snapshots = watchedLogs{stores.Logs, d}, watchedVotes{stores.Votes, d}, watchedSnapshots{stores.Snapshots, d}
	stores.Save = d.save
	return stores, nil
}

// look reads the content of the stores.
func (d *mounted) look(stores datadir.Stores) error {
	first, err := stores.Logs.FirstIndex()
	if err != nil {
		return err
	}
	last, err := stores.Logs.LastIndex()
	if err != nil {
		return err
	}
	metas, err := stores.Snapshots.List()
	if err != nil {
		return err
	}
	d.logs, d.confs, d.votes = map[uint64]raft.Log{}, map[uint64]raft.Configuration{}, map[string][]byte{}
	d.low, d.high, d.begun, d.snapshot = first, last, last, ending{}
	if len(metas) > 0 {
		d.begun, d.snapshot = max(last, metas[0].Index), ending{metas[0].Index, metas[0].Configuration}
	}
	for i := max(first, 1); i <= last; i++ {
		var l raft.Log
		switch err := stores.Logs.GetLog(i, &l); {
		case err == nil:
			d.has(l)
		case !errors.Is(err, raft.ErrLogNotFound):
			return err
		}
	}
	if v, err := stores.Votes.Get([]byte(keyVotedFor)); err == nil {
		d.votes[keyVotedFor] = v
	}
	return nil
}

// sync takes the time of a sync of the stores.
func (d *mounted) sync() error {
	if d.p.dead() {
		return errCrashed
	}
	if m := d.p.m; m.fatal > 0 {
		if m.fatal--; m.fatal == 0 {
			m.crash()
			d.w.later(m.afterCrash, func() { m.restart(m.reboots) })
			return errCrashed
		}
	}
	worst := d.worst
	if d.p.replica == nil { // a start has many
		worst = min(worst, 2*time.Millisecond)
	}
	time.Sleep(d.least + between(d.w.rng, 50*time.Microsecond, worst))
	if d.p.dead() {
		return errCrashed
	}
	d.p.awake()
	return nil
}
