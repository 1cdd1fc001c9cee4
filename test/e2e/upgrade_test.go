package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// upgrade is a cell with replicas that change their release under load.
type upgrade struct {
	*cell.Cell
	load *load
}

// roster makes replicas run a release, one after the other, as docs/operations.md
// describes.
func (u *upgrade) roster(t *testing.T, release cell.Release, replicas ...*cell.Replica) {
	t.Helper()
	for _, r := range replicas {
		must(t, r.Terminate(cell.Bounded(t)))
		u.load.progress(t, 20)
		r.Use(release.Binary)
		must(t, r.Start())
		u.Ready(t)
		u.load.progress(t, 20)
	}
}

// level returns the cell's level, on which all replicas agree.
func (u *upgrade) level(t *testing.T) (level uint64) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), "one level", func(ctx context.Context) error {
		level = 0
		for _, r := range u.Replicas() {
			view, err := r.Cell(ctx)
			if err != nil {
				return err
			}
			if level != 0 && view.Level != level {
				return fmt.Errorf("%s is at level %d, another at %d", r.ID, view.Level, level)
			}
			level = view.Level
		}
		return nil
	}))
	return level
}

func (u *upgrade) reaches(t *testing.T, level uint64) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), fmt.Sprintf("level %d", level), func(context.Context) error {
		if now := u.level(t); now != level {
			return fmt.Errorf("it is %d", now)
		}
		return nil
	}))
}

// TestUpgradeUnderLoad: a cell goes from one release to the next, back while
// one replica still runs the earlier one, and forward again. Acknowledged
// changes stay. The cell's level rises only when all run the new release; from
// then on the earlier release refuses to start and logs why.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	releases, err := cell.Releases()
	must(t, err)
	present, before := releases.Present, releases.Before
	u := &upgrade{Cell: cell.New(t, cell.Options{Binary: before.Binary, Args: frequentSnapshots, Door: true})}
	all := u.Replicas()
	u.load = startLoad(t, u.Cell, 4)
	u.reaches(t, before.Level)
	u.roster(t, present, all[0], all[1])
	if now := u.level(t); now != before.Level {
		t.Fatalf("the cell is at level %d, and %s knows %d only", now, all[2].ID, before.Level)
	}
	for name, use := range sinceLevel7(all[0]) {
		if err := use(cell.Bounded(t)); err == nil || !strings.Contains(err.Error(), "upgrade all replicas") {
			t.Errorf("%s in a cell of level %d: %v", name, before.Level, err)
		}
	}
	u.roster(t, before, all[0])
	u.roster(t, present, all[0], all[2])
	u.reaches(t, present.Level)
	for name, use := range sinceLevel7(all[0]) {
		if err := use(cell.Bounded(t)); err != nil {
			t.Errorf("%s in a cell of level %d: %v", name, present.Level, err)
		}
	}
	u.load.progress(t, 100)

	// A downgrade is too late now.
	must(t, all[1].Terminate(cell.Bounded(t)))
	all[1].Use(before.Binary)
	must(t, all[1].Start())
	select {
	case <-all[1].Exited():
	case <-cell.Bounded(t).Done():
		t.Fatalf("%s serves a cell of a level that it does not know", all[1].ID)
	}
	want := fmt.Sprintf("level %d; this release knows levels up to %d", present.Level, before.Level)
	if code, words := all[1].ExitState(); code == 0 || !strings.Contains(all[1].LogTail(20), want) {
		t.Errorf("%s ended with %s and does not log %q:\n%s", all[1].ID, words, want, all[1].LogTail(20))
	}
	all[1].Use(present.Binary)
	must(t, all[1].Start())
	u.Ready(t)
	u.load.end(t)
}

// sinceLevel7 are requests that came with the latest level. All members must know
// it before one is accepted.
func sinceLevel7(r *cell.Replica) map[string]func(context.Context) error {
	put := func(ctx context.Context, path string) error {
		status, _, text, err := door(ctx, r, http.MethodPut, path, "x")
		if err == nil && (status != http.StatusOK || text != "true") {
			err = fmt.Errorf("%d %s", status, text)
		}
		return err
	}
	return map[string]func(context.Context) error{
		"a key": func(ctx context.Context) error { return put(ctx, "kv/latest/a") },
		"a locked key": func(ctx context.Context) error {
			session, err := keySession(ctx, r, `{"TTL":"24h"}`)
			if err != nil {
				return err
			}
			return errors.Join(put(ctx, "kv/latest/l?acquire="+session), put(ctx, "session/destroy/"+session))
		},
	}
}
