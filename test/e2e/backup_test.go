package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestBackupAndRestore: a backup through a follower, under load, has every
// write that was acknowledged before it. It founds two cells, one after the
// other. Each is a new cell, with higher tokens and revisions than all before,
// without sessions, and with a lock-delay on each held lock.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	c := cell.NewPrepared(t, cell.Options{})
	for _, r := range c.Replicas() {
		must(t, r.Start())
	}
	master := c.Ready(t)
	s := call[lockapi.Session](t, master, http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: aWhile.Milliseconds()})
	held := call[lockapi.Grant](t, master, http.MethodPut, lockapi.RouteLocks+"/held", map[string]any{"session": s.ID, "lock_delay_ms": 1000})
	call[lockapi.Grant](t, master, http.MethodPut, lockapi.RouteLocks+"/long", map[string]any{"session": s.ID})
	call[lockapi.File](t, master, http.MethodPut, lockapi.RouteFiles+"/ephemeral?ephemeral=true&session="+s.ID, nil)

	// Writers record acknowledged writes; the backup has those from before its
	// begin.
	var acknowledged [4]atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range acknowledged {
		at := c.Replicas()[w%3]
		writers.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				if _, err := cell.Insist(ctx, []*cell.Replica{at}, http.MethodPut, fmt.Sprintf("%s/writer/%d/%d", lockapi.RouteFiles, w, n), nil, nil); err == nil {
					acknowledged[w].Store(n)
				}
			}
		})
	}
	must(t, cell.Wait(cell.Bounded(t), "writes under way", func(context.Context) error {
		if n := acknowledged[0].Load(); n < 50 {
			return fmt.Errorf("%d so far", n)
		}
		return nil
	}))
	var before [4]int64
	for w := range acknowledged {
		before[w] = acknowledged[w].Load()
	}
	file := filepath.Join(t.TempDir(), "cell.backup")
	out, err := os.Create(file)
	must(t, err)
	follower := c.Others(master)[0]
	sdk, err := client.New(follower.URL)
	must(t, err)
	header, err := admin.New(sdk).Backup(cell.Bounded(t), out)
	must(t, err)
	must(t, out.Close())
	must(t, sdk.Close())
	stop()
	writers.Wait()
	last := call[lockapi.File](t, master, http.MethodPut, lockapi.RouteFiles+"/after-the-backup", nil)
	must(t, c.Stop(cell.Bounded(t)))

	tokens, revisions, ids := []uint64{header.Token, held.Token}, []uint64{last.Revision}, []string{header.CellID}
	var cells []*cell.Cell
	for range 2 {
		next := cell.NewPrepared(t, cell.Options{Size: 1})
		r := next.Replicas()[0]
		restore := exec.Command(r.Command()[0], append([]string{"restore", "--from", file}, r.Command()[1:]...)...)
		if output, err := restore.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		must(t, r.Start())
		cells = append(cells, next)
	}
	for _, next := range cells {
		r := next.Replicas()[0]
		// There must be no master before every lease of the old cell is over.
		waits, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := next.WaitMaster(waits)
		must(t, err)
		for w, n := range before {
			for _, at := range []int64{1, n} {
				if n > 0 {
					call[lockapi.File](t, r, http.MethodGet, fmt.Sprintf("%s/writer/%d/%d?as=json", lockapi.RouteFiles, w, at), nil)
				}
			}
		}
		for _, gone := range []string{lockapi.RouteFiles + "/ephemeral?as=json", lockapi.RouteFiles + "/after-the-backup?as=json"} {
			_, err := cell.Insist(cell.Bounded(t), []*cell.Replica{r}, http.MethodGet, gone, nil, nil)
			wantCode(t, gone, err, lockapi.CodeNotFound)
		}
		_, err = cell.Insist(cell.Bounded(t), []*cell.Replica{r}, http.MethodGet, lockapi.RouteSessions+"/"+s.ID, nil, nil)
		wantCode(t, "a session of the old cell", err, lockapi.CodeSessionNotFound)
		if l := call[lockapi.Lock](t, r, http.MethodGet, lockapi.RouteLocks+"/long", nil); l.State != lockapi.StateDelayed {
			t.Errorf("/long is %s", l.State)
		}
		mine := call[lockapi.Session](t, r, http.MethodPost, lockapi.RouteSessions, nil)
		grant := call[lockapi.Grant](t, r, http.MethodPut, lockapi.RouteLocks+"/held", map[string]any{"session": mine.ID, "wait_ms": 20_000})
		wrote := call[lockapi.File](t, r, http.MethodPut, lockapi.RouteFiles+"/new", nil)
		members := call[lockapi.Members](t, r, http.MethodGet, lockapi.RouteMembers, nil)
		if grant.Token <= slices.Max(tokens) || wrote.Revision <= slices.Max(revisions) || slices.Contains(ids, members.CellID) || len(members.Members) != 1 {
			t.Errorf("token %d after %v, revision %d after %v, cell %s after %v, members %+v", grant.Token, tokens, wrote.Revision, revisions, members.CellID, ids, members.Members)
		}
		tokens, revisions, ids = append(tokens, grant.Token), append(revisions, wrote.Revision), append(ids, members.CellID)
	}
}
