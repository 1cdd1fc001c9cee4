package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/internal/throttle"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// backups writes backups of this replica's own state by schedule. A failure is
// logged and counted, and does not stop the replica.
type backups struct {
	dir   string
	every time.Duration // 0: no backups
	keep  int           // 0: all
	name  string        // prefix of this replica's files
	own   func() (master.Backup, error)
	log   zerolog.Logger
	done  chan struct{} // closed when run has returned

	remove func(name string) error // removes an old backup; tests replace it

	mu      sync.Mutex // guards the rest
	last    lockapi.BackupHeader
	size    int64
	written uint64
	failed  uint64
}

const (
	backupSuffix = ".backup"
	// backupRetry is the pause after a failure, unless the schedule's interval is
	// shorter.
	backupRetry = time.Minute
	// backupPatience is how long a backup may take before it is reported: the disk
	// may hang.
	backupPatience = 10 * time.Minute
)

func newBackups(c *config.Config, log zerolog.Logger) *backups {
	return &backups{
		dir: c.BackupDir, every: c.BackupEvery, keep: int(c.BackupKeep), name: c.Cell + "-" + c.ID + "-", log: log, done: make(chan struct{}), remove: os.Remove,
	}
}

// run writes backups until ctx ends. The first is due one interval after the latest
// existing backup: restarts do not delay it.
func (b *backups) run(ctx context.Context) {
	defer close(b.done)
	if b.every == 0 {
		return
	}
	stop := b.watch()
	// Only here: if the directory disappears later, its disk is no longer mounted,
	// and a new directory would be on another disk.
	_ = os.MkdirAll(b.dir, 0o700)
	b.sweep()
	due := b.every - b.age()
	stop()
	next, began := max(0, due), time.Now()
	for {
		t := time.NewTimer(next)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		next = b.every
		stop := b.watch()
		err := b.write(ctx)
		stop()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, lockapi.CodeNoMaster) && time.Since(began) < backupRetry {
				next = min(b.every, time.Second) // the replica has just started
				continue
			}
			next = min(b.every, backupRetry)
			b.fails(err).Dur("next_in_ms", next).Msg("could not write a backup")
		}
	}
}

// watch reports a step that does not end, again and again: an alert on failures must
// not end while it hangs. Call stop when the step has ended.
func (b *backups) watch() (stop func()) {
	began, ended := time.Now(), make(chan struct{})
	go func() {
		t := time.NewTicker(backupPatience)
		defer t.Stop()
		for {
			select {
			case <-ended:
				return
			case <-t.C:
				b.fails(fmt.Errorf("no end after %v; does the disk of the directory respond?", time.Since(began).Round(time.Second))).Msg("a backup hangs")
			}
		}
	}()
	return func() { close(ended) }
}

// fails counts a failure, and begins its line in the log.
func (b *backups) fails(err error) *zerolog.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
	return b.log.Warn().Err(err).Str("backup_dir", b.dir)
}

// kept is one of this replica's backups. Backups are ordered by revision, and for
// equal revisions by log entry: sessions and access change without a revision. The
// time in the name does not count, because a wall clock may be wrong.
type kept struct {
	name            string
	revision, index uint64
}

// earlier compares two backups by their states, the earlier first.
func earlier(a, b kept) int {
	return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.index, b.index), strings.Compare(a.name, b.name))
}

// kept lists this replica's backups, the earliest state first.
func (b *backups) kept() []kept {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil // write reports the error
	}
	var all []kept
	of := map[uint64]int{} // number of backups by revision
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, b.name) && strings.HasSuffix(name, backupSuffix) && e.Type().IsRegular() && b.isTime(name) {
			r := b.revision(name)
			all, of[r] = append(all, kept{name: name, revision: r}), of[r]+1
		}
	}
	for i, k := range all {
		if of[k.revision] > 1 { // else the log entry is not needed
			all[i].index = b.index(k.name)
		}
	}
	slices.SortFunc(all, earlier)
	return all
}

// revision returns the revision in a name; 0 if it has none.
func (b *backups) revision(name string) uint64 {
	_, after, _ := strings.Cut(name[len(b.name)+len(backupTime):], "-r")
	digits, _, _ := strings.Cut(strings.TrimSuffix(after, backupSuffix), "-")
	r, _ := strconv.ParseUint(digits, 10, 64)
	return r
}

// index returns the last log entry in a backup; 0 if its header cannot be read.
func (b *backups) index(name string) uint64 {
	f, err := os.Open(filepath.Join(b.dir, name))
	if err != nil {
		return 0
	}
	defer f.Close()
	r, err := backup.NewReader(f)
	if err != nil {
		return 0
	}
	return r.Header.Index
}

// backupTime is the format of the time in a name. A name has the cell, the replica,
// the time, the revision, and "stale" for a stale backup.
const backupTime = "20060102T150405.000Z"

// isTime reports whether a time follows the prefix of the name. Otherwise the backup
// belongs to a replica with a longer name.
func (b *backups) isTime(name string) bool {
	rest := strings.TrimPrefix(name, b.name)
	if len(rest) < len(backupTime) {
		return false
	}
	_, err := time.Parse(backupTime, rest[:len(backupTime)])
	return err == nil
}

// age returns the age of the latest backup, at most the schedule's interval. A file
// with a time in the future does not count: after a clock was ahead, it would delay
// the next backup at each restart.
func (b *backups) age() time.Duration {
	least := b.every
	for _, k := range b.kept() {
		if info, err := os.Stat(filepath.Join(b.dir, k.name)); err == nil {
			if age := time.Since(info.ModTime()); age >= 0 {
				least = min(least, age)
			}
		}
	}
	return least
}

// sweep removes partial files of a killed process.
func (b *backups) sweep() {
	left, _ := filepath.Glob(filepath.Join(b.dir, backup.Partial+"*"))
	for _, name := range left {
		if of := strings.TrimPrefix(filepath.Base(name), backup.Partial); strings.HasPrefix(of, b.name) && b.isTime(of) {
			_ = os.Remove(name)
		}
	}
}

// write writes one backup, whole or not at all, and removes the oldest beyond the
// number to keep. One that cannot be removed is no reason to write the next early.
func (b *backups) write(ctx context.Context) error {
	own, err := b.own()
	if err != nil {
		return err
	}
	if _, err := os.Stat(b.dir); err != nil {
		return fmt.Errorf("backup-dir: %w; is its disk mounted? A replica creates the directory only at its start", err)
	}
	h := own.Header
	if all := b.kept(); len(all) > 0 {
		last := all[len(all)-1]
		if h.Revision < last.revision || h.Revision == last.revision && h.Index < b.index(last.name) {
			return fmt.Errorf("this replica's state (revision %d, log entry %d) is older than %s, which it could displace. "+
				"If this is a new cell with the old name, move the old cell's backups elsewhere", h.Revision, h.Index, last.name)
		}
	}
	name := fmt.Sprintf("%s%s-r%d", b.name, h.Time.UTC().Format(backupTime), h.Revision)
	if h.Stale {
		name += "-stale"
	}
	name += backupSuffix
	counted := &counter{ctx: ctx}
	err = backup.Save(filepath.Join(b.dir, name), false, func(w io.Writer) error {
		counted.to = w
		return backup.Write(throttle.NewWriter(counted), h, own.Snapshot)
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.last, b.size, b.written = h, counted.n, b.written+1
	b.mu.Unlock()
	b.log.Info().Str("file", name).Int64("bytes", counted.n).Uint64("revision", h.Revision).Bool("stale", h.Stale).Msg("backup written")
	if err := b.prune(name); err != nil {
		b.fails(err).Msg("too many backups are kept")
	}
	return nil
}

func (b *backups) prune(newest string) error {
	if b.keep == 0 {
		return nil
	}
	others := slices.DeleteFunc(b.kept(), func(k kept) bool { return k.name == newest })
	for len(others) > b.keep-1 {
		if err := b.remove(filepath.Join(b.dir, others[0].name)); err != nil {
			return fmt.Errorf("cannot remove an old backup: %w", err)
		}
		others = others[1:]
	}
	return nil
}

// counter counts written bytes. It refuses writes after the end of ctx.
type counter struct {
	ctx context.Context
	to  io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// locked returns a function that reads a value under the lock of b.
func locked[T any](b *backups, value func() T) func() T {
	return func() T {
		b.mu.Lock()
		defer b.mu.Unlock()
		return value()
	}
}

func (b *backups) metrics(set *metric.Set) {
	set.Gauge("stout_backup_last_timestamp_seconds", "Start of the last scheduled backup that this process wrote, by Unix time; 0 before the first.", locked(b, func() float64 { return metric.Unix(b.last.Time) }))
	set.Gauge("stout_backup_last_size_bytes", "Size of that backup.", locked(b, func() float64 { return float64(b.size) }))
	set.Gauge("stout_backup_last_stale", "1 if that backup was not made by the cell's master.", locked(b, func() float64 { return metric.If(b.last.Stale) }))
	set.Counter("stout_backups_written_total", "Scheduled backups written.", locked(b, func() uint64 { return b.written }))
	set.Counter("stout_backups_failed_total", "Scheduled backups that could not be written, and old backups that could not be removed.", locked(b, func() uint64 { return b.failed }))
}
