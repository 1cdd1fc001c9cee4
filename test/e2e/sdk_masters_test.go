package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestExactlyOnceByTheClient: masters are killed, transferred and cut off. Each
// write by a session happens exactly once, and every watcher receives each of
// them, in the same order.
func TestExactlyOnceByTheClient(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm, Network: true})
	master := c.Ready(t)
	ctx, stop := context.WithCancel(cell.Bounded(t))
	defer stop()

	first, err := sdkSession(t, c).Client().Revision(ctx)
	must(t, err)
	var watchers [3]seenEvents
	var watching sync.WaitGroup
	for i, r := range c.Replicas() {
		sdk, err := client.New(append([]string{r.URL}, c.URLs()...)...)
		must(t, err)
		watching.Go(func() { watchers[i].watch(ctx, t, sdk, first) })
	}

	var writes [4]int
	writing, enough := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for i := range writes {
		s := sdkSession(t, c)
		writers.Go(func() { writes[i] = writeUntil(writing, ctx, t, s, i) })
	}
	old := master
	must(t, old.Kill())
	master = newMaster(t, c, old)
	must(t, old.Start())
	c.Ready(t)
	c.Network().Isolate(master.ID)
	master = newMaster(t, c, master)
	c.Network().Heal()
	transferTo(t, c, master, c.Others(master)[0])
	enough()
	writers.Wait()

	total := 0
	for i, n := range writes {
		t.Logf("writer %d made %d changes of each kind", i, n)
		total += n
	}
	if total < 20 {
		t.Errorf("only %d changes were made", total)
	}
	sdk := sdkSession(t, c).Client()
	checkOnce(t, sdk, writes[:])
	must(t, cell.Wait(ctx, "all watchers have all events", func(context.Context) error {
		for i := range watchers {
			if err := watchers[i].complete(total); err != nil {
				return fmt.Errorf("watcher %d: %w", i, err)
			}
		}
		return nil
	}))
	stop()
	watching.Wait()
	for i := range watchers[1:] {
		if !slices.Equal(watchers[0].seen, watchers[i+1].seen) {
			t.Errorf("two watchers received different events:\n%s\n%s", strings.Join(watchers[0].seen, "\n"), strings.Join(watchers[i+1].seen, "\n"))
		}
	}
}

// writeUntil makes changes of each kind until writing ends, and returns their
// number. It never abandons one.
func writeUntil(writing, ctx context.Context, t *testing.T, s *client.Session, writer int) (n int) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for ; writing.Err() == nil; n++ {
		<-tick.C
		_, put := s.Put(ctx, fmt.Sprintf("/put/%d", writer), fmt.Append(nil, n))
		_, made := s.CreateSequential(ctx, fmt.Sprintf("/seq/%d-", writer), nil)
		_, txn := s.Txn().Then(client.OpPut(fmt.Sprintf("/txn/%d", writer), fmt.Append(nil, n))).Commit(ctx)
		if err := errors.Join(put, made, txn); err != nil {
			t.Errorf("writer %d: %v", writer, err)
			return n
		}
	}
	return n
}

// checkOnce checks by the files that each change happened once.
func checkOnce(t *testing.T, sdk *client.Client, writes []int) {
	t.Helper()
	ctx := cell.Bounded(t)
	sequential := make(map[string]int)
	for file, err := range sdk.List(ctx, "/seq/") {
		must(t, err)
		writer, _, _ := strings.Cut(strings.TrimPrefix(file.Path, "/seq/"), "-")
		sequential[writer]++
	}
	for i, n := range writes {
		if got := sequential[fmt.Sprint(i)]; got != n {
			t.Errorf("writer %d made %d sequential files; there are %d", i, n, got)
		}
		for _, kind := range []string{"put", "txn"} {
			file, err := sdk.Get(ctx, fmt.Sprintf("/%s/%d", kind, i))
			must(t, err)
			if file.Generation != uint64(n) || string(file.Content) != fmt.Sprint(n-1) {
				t.Errorf("writer %d wrote %d times; the %s file has generation %d and the content %q", i, n, kind, file.Generation, file.Content)
			}
		}
	}
}

// seenEvents is the events that a watcher received.
type seenEvents struct {
	mu   sync.Mutex // guards seen
	seen []string
}

func (h *seenEvents) watch(ctx context.Context, t *testing.T, sdk *client.Client, after uint64) {
	for e, err := range sdk.Watch(ctx, after, client.OnPrefix("/put/", "/seq/", "/txn/")) {
		if ctx.Err() != nil {
			return
		}
		if err != nil || e.Compacted != nil {
			t.Errorf("a watcher received %+v, %v", e, err)
			return
		}
		h.mu.Lock()
		if e.Type != lockapi.EventMasterChanged {
			h.seen = append(h.seen, fmt.Sprintf("%d %s %s", e.Revision, e.Type, e.Path))
		}
		h.mu.Unlock()
	}
}

// complete returns nil when all changes have arrived, three for each round of a
// writer.
func (h *seenEvents) complete(rounds int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.seen) < 3*rounds {
		return fmt.Errorf("%d changes of %d have arrived", len(h.seen), 3*rounds)
	}
	return nil
}

// TestFollowByTheClient: a follower knows the current files after each change
// of master, and a later follower receives the same.
func TestFollowByTheClient(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm})
	master := c.Ready(t)
	s := sdkSession(t, c)
	ctx := cell.Bounded(t)
	follow := func() (wait func(want string)) {
		changes := make(chan string, 1000)
		go func() {
			files := make(map[string]string)
			for change, err := range s.Client().Follow(ctx, "/f/", client.Contents()) {
				switch {
				case err != nil:
					return
				case change.Synced:
				case change.File == nil:
					delete(files, change.Path)
				case change.File.Content != nil:
					files[change.Path] = string(change.File.Content)
				}
				changes <- fmt.Sprint(files)
			}
		}()
		return func(want string) {
			t.Helper()
			for got := ""; got != want; {
				select {
				case got = <-changes:
				case <-ctx.Done():
					t.Fatalf("the files are %s; wanted %s", got, want)
				}
			}
		}
	}
	put := func(path, content string) {
		t.Helper()
		_, err := s.Put(ctx, path, []byte(content))
		must(t, err)
	}
	put("/f/a", "1")
	early := follow()
	early("map[/f/a:1]")
	must(t, master.Kill())
	newMaster(t, c, master)
	put("/f/b", "2")
	put("/other", "x")
	early("map[/f/a:1 /f/b:2]")
	must(t, master.Start())
	transferTo(t, c, c.Others(master)[0], master)
	if _, err := s.Delete(ctx, "/f/a"); err != nil {
		t.Fatal(err)
	}
	put("/f/b", "3")
	early("map[/f/b:3]")
	follow()("map[/f/b:3]")
}
