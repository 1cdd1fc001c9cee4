package client_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/testrun"
)

// Follow yields the files and their changes. It refuses an invalid prefix.
func TestFollow(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		for _, err := range c.Follow(t.Context(), "app/") {
			wantErr(t, err, client.ErrInvalidArgument)
		}
		base := tc.revision()
		for _, path := range []string{"/app/a", "/app/b", "/app/c", "/b"} {
			tc.put(path, "one")
		}
		var told []string
		for change, err := range c.Follow(t.Context(), "/app/", client.Contents()) {
			switch {
			case err != nil:
				t.Fatal(err)
			case change.Synced:
				told = append(told, fmt.Sprintf("synced %d", change.Revision-base))
				tc.put("/app/b", "two")
				tc.put("/b", "two")
				must(t, second(c.Delete(t.Context(), "/app/a")))
			case change.File == nil:
				told = append(told, fmt.Sprintf("%s %d %s", change.Path, change.Revision-base, change.Reason))
			default:
				told = append(told, fmt.Sprintf("%s %d %s %t", change.Path, change.Revision-base, change.File.Content, change.Listed))
			}
			if len(told) == 6 {
				break
			}
		}
		want := []string{"/app/a 1 one true", "/app/b 2 one true", "/app/c 3 one true", "synced 4", "/app/b 5 two false", "/app/a 7 deleted"}
		if !slices.Equal(told, want) {
			t.Errorf("changes are\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A file that changes between the pages of a list is yielded once per change.
func TestFollowWhileItReads(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		c := tc.by(t, roundTrip(func(r *http.Request) (*http.Response, error) { // small pages, so that the client needs several
			r = r.Clone(r.Context())
			if q := r.URL.Query(); q.Has("limit") {
				q.Set("limit", "2")
				r.URL.RawQuery = q.Encode()
			}
			return tc.RoundTrip(r)
		}), tc.URLs()...)
		base := tc.revision()
		for i := range 9 {
			tc.put(fmt.Sprintf("/%d", i), "x")
		}
		latest := map[string]uint64{}
		n, synced := 0, uint64(0)
		for change, err := range c.Follow(t.Context(), "") {
			must(t, err)
			if change.Synced {
				synced = change.Revision
				continue
			}
			if synced != 0 && change.Revision <= synced {
				t.Errorf("%s at %d follows Synced at revision %d", change.Path, change.Revision, synced)
			}
			if change.Revision <= latest[change.Path] {
				t.Errorf("%s at %d follows %d", change.Path, change.Revision, latest[change.Path])
			}
			latest[change.Path] = change.Revision
			if n++; n <= 5 { // other clients write while the pages are read, behind and ahead
				tc.put(fmt.Sprintf("/%d", n-1), "y")
				tc.put(fmt.Sprintf("/%d", 9-n), "y")
			}
			if change.Revision == base+19 {
				break
			}
		}
		for file, err := range tc.admin.List(t.Context(), "/") {
			if err != nil || latest[file.Path] != file.Revision {
				t.Errorf("%s is at %d, yielded was %d (%v)", file.Path, file.Revision, latest[file.Path], err)
			}
		}
	})
}

// Follow never uses stale reads: pages from replicas of different age would
// leave a gap between them.
func TestFollowIsNeverStale(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.put("/a", "x")
		for change, err := range c.Follow(t.Context(), "/", client.Stale()) {
			must(t, err)
			if change.Synced {
				break
			}
		}
		for _, r := range tc.sent() {
			if strings.Contains(r.query, "stale") {
				t.Errorf("it requested %s?%s", r.path, r.query)
			}
		}
	})
}

// Follow converges to the present files, even if it misses events.
func TestFollowConverges(t *testing.T) {
	for seed := range uint64(testrun.Times(3, 3)) {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			random := rand.New(rand.NewPCG(seed, 1))
			ctx, cancel := context.WithCancel(t.Context())
			mine, done := map[string]uint64{}, make(chan struct{})
			go func() {
				defer close(done)
				random := rand.New(rand.NewPCG(seed, 2))
				for change, err := range c.Follow(ctx, "/f/") {
					switch {
					case err != nil, change.Synced:
					case change.File == nil:
						if mine[change.Path] == 0 {
							t.Errorf("%s is deleted but was not present", change.Path)
						}
						delete(mine, change.Path)
					case change.Revision <= mine[change.Path]:
						t.Errorf("%s at %d follows %d", change.Path, change.Revision, mine[change.Path])
					default:
						mine[change.Path] = change.Revision
					}
					if random.IntN(5) == 0 {
						time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
					}
				}
			}()
			for range 300 {
				path := fmt.Sprintf("/f/%d", random.IntN(12))
				switch n := random.IntN(20); {
				case n < 13:
					tc.put(path, "x")
				case n < 17:
					must(t, second(tc.admin.Delete(t.Context(), path)))
				case n < 18:
					tc.forget("r1", "r2", "r3")
				case n < 19:
					tc.breakConnections()
				default:
					time.Sleep(time.Second)
				}
				time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
			}
			time.Sleep(time.Minute)
			cancel()
			<-done
			want := map[string]uint64{}
			for file, err := range tc.admin.List(t.Context(), "/f/") {
				must(t, err)
				want[file.Path] = file.Revision
			}
			if !maps.Equal(mine, want) {
				t.Errorf("seed %d: yielded %v, present %v", seed, mine, want)
			}
		})
	}
}
