package embed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// scheduled writes a backup every hour in a bubble, and keeps three. Each backup has the
// next revision; those with an even revision are stale.
func scheduled(t *testing.T, dir string, own *ownStates, f func(t *testing.T, b *backups, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBackups(&config.Config{Cell: "prod", ID: "r1", BackupDir: dir, BackupEvery: time.Hour, BackupKeep: 3}, zerolog.New(&log))
		revision := uint64(0)
		own.next = func() (master.Backup, error) {
			revision++
			return master.Backup{
				Header: lockapi.BackupHeader{Revision: revision, Time: time.Now(), Stale: revision%2 == 0},
				Snapshot: func(w io.Writer) error {
					_, err := w.Write(make([]byte, 1<<20))
					if own.full.Load() {
						return errors.New("no space left on device")
					}
					return err
				},
			}, nil
		}
		b.own = own.get
		b.remove = func(name string) error {
			if own.stays.Load() {
				return errors.New("operation not permitted")
			}
			return os.Remove(name)
		}
		ctx, stop := context.WithCancel(t.Context())
		go b.run(ctx)
		f(t, b, &log)
		stop()
		<-b.done
	})
}

// names lists this replica's backups, the earliest state first.
func (b *backups) names() (names []string) {
	for _, k := range b.kept() {
		names = append(names, k.name)
	}
	return names
}

// TestScheduledBackups: a backup is written at once, then each hour. Each is whole and
// shows whether it is stale. The oldest is removed; other files are not.
func TestScheduledBackups(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	others := []string{"prod-r10-20260101T000000.000Z-r1.backup", "prod-r1-mine.backup", "prod-r1-x-20260101T000000.000Z-r1.backup", backup.Partial + "prod-r2-20260101T000000.000Z-r1.backup-1"}
	for _, name := range append(others, backup.Partial+"prod-r1-20260101T000000.000Z-r1.backup-1") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scheduled(t, dir, new(ownStates), func(t *testing.T, b *backups, _ *bytes.Buffer) {
		for hour := range 6 {
			time.Sleep(time.Second)
			synctest.Wait()
			names := b.names()
			if want := min(hour+1, 3); len(names) != want {
				t.Fatalf("hour %d: %q", hour, names)
			}
			newest := names[len(names)-1]
			h, err := backup.VerifyFile(filepath.Join(dir, newest))
			if err != nil || h.Revision != uint64(hour+1) || h.Stale != strings.HasSuffix(newest, "-stale.backup") || h.Stale != (hour%2 == 1) {
				t.Errorf("hour %d: %s has %+v, %v", hour, newest, h, err)
			}
			time.Sleep(time.Hour - time.Second)
		}
	})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3+len(others) {
		t.Errorf("there are %v, %v", entries, err)
	}
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestBackupsThatFail: a failed backup is logged and counted, leaves no file, and is
// tried again a minute later.
func TestBackupsThatFail(t *testing.T) {
	dir, own := t.TempDir(), new(ownStates)
	own.full.Store(true)
	scheduled(t, dir, own, func(t *testing.T, b *backups, log *bytes.Buffer) {
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if b.failed != 2 || b.written != 0 || strings.Count(log.String(), "no space left on device") != 2 || !strings.Contains(log.String(), `"level":"warn"`) {
			t.Errorf("failed %d times, written %d: %s", b.failed, b.written, log)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("left: %v", entries)
		}
		own.full.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.failed != 2 || b.written != 1 || b.size == 0 {
			t.Errorf("then failed %d times, written %d", b.failed, b.written)
		}
	})
}

// TestBackupThatHangs: a disk that does not respond is reported and counted, again for
// each 10 minutes, so that an alert stays.
func TestBackupThatHangs(t *testing.T) {
	own := new(ownStates)
	scheduled(t, t.TempDir(), own, func(t *testing.T, b *backups, log *bytes.Buffer) {
		synctest.Wait() // the first is written
		hang := make(chan struct{})
		own.mu.Lock()
		next := own.next
		own.next = func() (master.Backup, error) {
			b, err := next()
			write := b.Snapshot
			b.Snapshot = func(w io.Writer) error { <-hang; return write(w) }
			return b, err
		}
		own.mu.Unlock()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if b.failed != 6 || b.written != 1 || !strings.Contains(log.String(), "no end after 1h0m0s") {
			t.Errorf("failed %d times, written %d: %s", b.failed, b.written, log)
		}
		close(hang)
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.written < 2 {
			t.Errorf("then written %d", b.written)
		}
	})
}

// TestOldBackupThatStays: an old backup that cannot be removed is reported, and the
// next backup is written when it is due.
func TestOldBackupThatStays(t *testing.T) {
	own := new(ownStates)
	scheduled(t, t.TempDir(), own, func(t *testing.T, b *backups, log *bytes.Buffer) {
		time.Sleep(2*time.Hour + time.Minute)
		synctest.Wait() // three are written
		own.stays.Store(true)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if b.failed != 2 || b.written != 5 || strings.Count(log.String(), "operation not permitted") != 2 {
			t.Errorf("failed %d times, written %d: %s", b.failed, b.written, log)
		}
	})
}

// counts returns how many backups were written, and how many failed.
func (b *backups) counts() (written, failed uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written, b.failed
}

// TestNoBackupPushesOutABetterOne: a replica that was restarted without a majority has
// only the state of its last snapshot, and its earlier backups have later states.
func TestNoBackupPushesOutABetterOne(t *testing.T) {
	dir := t.TempDir()
	best := "prod-r1-20260101T000000.000Z-r21-stale.backup"
	for _, name := range []string{best, "prod-r1-20260101T010000.000Z-r20.backup", "prod-r2-20260101T000000.000Z-r99.backup"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scheduled(t, dir, new(ownStates), func(t *testing.T, b *backups, log *bytes.Buffer) {
		time.Sleep(15 * time.Minute) // revisions up to 16
		synctest.Wait()
		if written, failed := b.counts(); written != 0 || failed == 0 || !strings.Contains(log.String(), best) || len(b.names()) != 2 {
			t.Errorf("written %d, failed %d, there are %q: %s", written, failed, b.names(), log)
		}
	})
}

// ownStates is the source of the states for backups, safe for two goroutines.
type ownStates struct {
	mu    sync.Mutex
	next  func() (master.Backup, error)
	stays atomic.Bool // old backups cannot be removed
	full  atomic.Bool // writes fail before their end
}

func (o *ownStates) get() (master.Backup, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next()
}

// are sets the states of a test's own.
func (o *ownStates) are(next func() lockapi.BackupHeader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = func() (master.Backup, error) {
		return master.Backup{Header: next(), Snapshot: func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }}, nil
	}
}

// TestTheEarliestStateGoes: the earliest state is removed first, even if its backup has
// a later time: the clock is years ahead for the first two. The log entry orders states
// of equal revision.
func TestTheEarliestStateGoes(t *testing.T) {
	for name, revises := range map[string]uint64{"each state has a revision of its own": 1, "all have one revision": 0} {
		t.Run(name, func(t *testing.T) {
			own := new(ownStates)
			scheduled(t, t.TempDir(), own, func(t *testing.T, b *backups, log *bytes.Buffer) {
				time.Sleep(time.Second)
				synctest.Wait()
				revision, index := uint64(100), uint64(1000)
				own.are(func() lockapi.BackupHeader {
					at := time.Now()
					if index++; index <= 1002 {
						at = at.AddDate(5, 0, 0)
					}
					revision += revises
					return lockapi.BackupHeader{Revision: revision, Index: index, Time: at}
				})
				for range 8 {
					time.Sleep(time.Hour)
					synctest.Wait()
					own.mu.Lock()
					last := index
					own.mu.Unlock()
					for i, kept := range b.kept() {
						if h, err := backup.VerifyFile(filepath.Join(b.dir, kept.name)); err != nil || last > 1002 && h.Index != last-2+uint64(i) {
							t.Errorf("at entry %d, place %d has %+v, %v: %s", last, i, h, err, log)
						}
					}
				}
				if n := len(b.kept()); n != 3 {
					t.Errorf("%d are kept: %s", n, log)
				}
			})
		})
	}
}

// TestBackupOfTheStateJustBefore: a backup with a lower revision, or the same and a
// lower log entry, is refused; the same state is written again.
func TestBackupOfTheStateJustBefore(t *testing.T) {
	own := new(ownStates)
	scheduled(t, t.TempDir(), own, func(t *testing.T, b *backups, log *bytes.Buffer) {
		time.Sleep(time.Second)
		synctest.Wait()
		for _, step := range []struct {
			revision, index uint64
			refused         bool
		}{{21, 90, false}, {20, 91, true}, {21, 89, true}, {21, 90, false}, {22, 80, false}} {
			own.are(func() lockapi.BackupHeader {
				return lockapi.BackupHeader{Revision: step.revision, Index: step.index, Time: time.Now()}
			})
			if err := b.write(t.Context()); (err != nil) != step.refused {
				t.Errorf("%+v: %v", step, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestBackupsOfAReplicaThatStarts: backups wait for a master, without a warning for a
// minute.
func TestBackupsOfAReplicaThatStarts(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var found atomic.Bool
		b := newBackups(&config.Config{Cell: "prod", ID: "r1", BackupDir: dir, BackupEvery: time.Hour, BackupKeep: 3}, zerolog.New(&log))
		b.own = func() (master.Backup, error) {
			if !found.Load() {
				return master.Backup{}, lockapi.Errorf(lockapi.CodeNoMaster, "no master yet")
			}
			return master.Backup{Header: lockapi.BackupHeader{Revision: 1, Time: time.Now()}, Snapshot: func(io.Writer) error { return nil }}, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		go b.run(ctx)
		for _, step := range []struct {
			after           time.Duration
			written, failed uint64
		}{{59 * time.Second, 0, 0}, {2 * time.Second, 0, 1}, {time.Minute, 1, 1}} {
			time.Sleep(step.after)
			synctest.Wait()
			if written, failed := b.counts(); written != step.written || failed != step.failed {
				t.Errorf("written %d, failed %d, want %+v", written, failed, step)
			}
			found.Store(step.failed > 0)
		}
		stop()
		<-b.done
		if !strings.Contains(log.String(), "no master yet") {
			t.Errorf("the log is %s", &log)
		}
	})
}

// TestBackupDirThatGoesAway: a directory that disappears is not created again. Its disk
// is no longer mounted, and a new directory would be on another disk.
func TestBackupDirThatGoesAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mounted", "backups")
	scheduled(t, dir, new(ownStates), func(t *testing.T, b *backups, log *bytes.Buffer) {
		time.Sleep(time.Second)
		synctest.Wait()
		if written, _ := b.counts(); written != 1 {
			t.Errorf("written %d: %s", written, log)
		}
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		_, failed := b.counts()
		if _, err := os.Stat(dir); err == nil || failed == 0 || !strings.Contains(log.String(), "is its disk mounted?") {
			t.Errorf("%v, failed %d times: %s", err, failed, log)
		}
	})
}

// TestRestartsPutNoBackupOff: a restart neither delays the next backup nor causes one.
func TestRestartsPutNoBackupOff(t *testing.T) {
	b := newBackups(&config.Config{Cell: "prod", ID: "r1", BackupDir: t.TempDir(), BackupEvery: time.Hour, BackupKeep: 3}, zerolog.Nop())
	if b.age() != time.Hour {
		t.Errorf("without one: %v", b.age())
	}
	name := filepath.Join(b.dir, "prod-r1-20260101T000000.000Z-r1.backup")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, time.Time{}, time.Now().Add(-40*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if age := b.age(); age < 40*time.Minute || age > 50*time.Minute {
		t.Errorf("%v", age)
	}
	ahead := filepath.Join(b.dir, "prod-r1-20310101T000000.000Z-r2.backup") // by a wrong clock
	if err := os.WriteFile(ahead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(ahead, time.Time{}, time.Now().AddDate(5, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if age := b.age(); age < 40*time.Minute || age > 50*time.Minute {
		t.Errorf("beside a backup from the future: %v", age)
	}
}

// TestBackupsOfAProcess: a replica with these settings writes backups while it serves,
// and stops in good order.
func TestBackupsOfAProcess(t *testing.T) {
	dir := t.TempDir()
	c := cellOf(t, 1)[0]
	c.BackupEvery, c.BackupDir, c.BackupKeep = time.Second, dir, 1
	r := start(t, c)
	var fresh lockapi.BackupHeader
	for deadline := time.Now().Add(time.Minute); fresh.Revision == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		names, err := filepath.Glob(filepath.Join(dir, c.Cell+"-*.backup"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if h, err := backup.VerifyFile(name); err == nil && !h.Stale {
				fresh = h
			}
		}
	}
	stop(t, r)
	if fresh.Revision == 0 || fresh.Cell != c.Cell {
		t.Errorf("backup %+v", fresh)
	}
}
