package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// isLook says whether a request asks where the replicas are.
func isLook(r fakeRequest) bool { return r.path == lockapi.RouteURLs }

// members is what the cell tells of where its replicas are.
func (f *fakeCell) members() *lockapi.URLs {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told
}

// has has the cell be made up of those replicas, which are started where they are
// new. The others run on and are no members.
func (f *fakeCell) has(ids ...string) {
	f.set(func() {
		f.told = &lockapi.URLs{CellID: "fake"}
		for _, id := range ids {
			f.told.Replicas = append(f.told.Replicas, lockapi.ReplicaURL{ID: id, URL: "http://" + id})
			if f.replicas[id] == nil {
				f.replicas[id] = &fakeReplica{broken: make(chan struct{})}
			}
		}
	})
}

// knowing is a client that was given some URLs.
func (f *fakeCell) knowing(t *testing.T, c Config, urls ...string) *Client {
	t.Helper()
	c.URLs, c.Clock = urls, func() time.Duration { return time.Since(f.start) }
	if c.Transport == nil {
		c.Transport = f
	}
	out, err := c.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return out
}

// wantKnown checks where a client believes replicas to be, in any order.
func wantKnown(t *testing.T, c *Client, want ...string) {
	t.Helper()
	got, err := c.URLs(t.Context())
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("it knows %q, want %q (%v)", got, want, err)
	}
}

func wantRead(t *testing.T, c *Client, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if _, err := c.ReadLock(ctx, "/a"); err != nil {
		t.Error(err)
	}
}

// From one URL a client learns the others, before that one is gone.
func TestLearnsTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		f.has("r1", "r2", "r3")
		c := f.knowing(t, Config{}, "http://r2")
		wantRead(t, c, time.Second)
		wantKnown(t, c, "http://r1", "http://r2") // the master, too
		time.Sleep(2 * firstLook)
		wantKnown(t, c, "http://r1", "http://r2", "http://r3")
		f.kill("r2")
		f.kill("r1")
		f.elect("r3")
		wantRead(t, c, 2*time.Second)
	})
}

// A client whose cell's every machine was replaced keeps its session, its lock and
// its watch, and does not know those any more that are gone.
func TestEveryMachineIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		f.has("r1", "r2", "r3")
		c := f.knowing(t, Config{}, "http://r1")
		s := open(t, c)
		h := lock(t, s, "/a")
		w := watchFor(t, c, 0)
		f.put("/f", "x")
		now := []string{"r1", "r2", "r3"}
		for i := range 6 {
			now = append(now, fmt.Sprint("r", 4+i))
			f.has(now...)
			time.Sleep(20 * time.Second)
			gone := now[0]
			now = now[1:]
			f.has(now...)
			if f.masterIs(gone) {
				f.elect(now[0])
			}
			f.kill(gone)
			f.put("/f", "x")
			time.Sleep(time.Minute)
		}
		wantKnown(t, c, "http://r1", "http://r7", "http://r8", "http://r9")
		wantState(t, s, Safe)
		if h.Err() != nil {
			t.Error(h.Err())
		}
		wantTold(t, w, upTo(7)...)
	})
}

func (f *fakeCell) masterIs(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.master == id
}

// A client whose one replica is cut off from the others learns of them from it.
func TestLearnsFromOneThatIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		f.has("r1", "r2", "r3")
		f.elect("r2")
		way := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "r1" && r.URL.Query().Get("consistency") == "" {
				return answer(func(*http.Request) (int, string) { return 503, `{"code":"no_master"}` }).RoundTrip(r)
			}
			return f.RoundTrip(r)
		})
		wantRead(t, f.knowing(t, Config{Transport: way}, "http://r1"), 10*time.Second)
		c := f.knowing(t, Config{Transport: way, OnlyURLs: true}, "http://r1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.ReadLock(ctx, "/a")
		wantErr(t, err, ErrNoMaster)
	})
}

// Whoever may not ask follows the masters that are named.
func TestFollowsNamedMasters(t *testing.T) {
	for _, refusal := range []lockapi.Code{lockapi.CodeUnauthenticated, lockapi.CodePermissionDenied, lockapi.CodeNotFound} {
		bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
			f.gate = func(r *http.Request) *lockapi.Error {
				if r.URL.Path == lockapi.RouteURLs {
					return lockapi.Errorf(refusal, "no")
				}
				return nil
			}
			c := f.knowing(t, Config{}, "http://r1")
			for _, id := range []string{"r1", "r2", "r3"} {
				f.elect(id)
				wantRead(t, c, time.Second)
				time.Sleep(time.Minute)
			}
			f.kill("r1")
			f.kill("r3")
			f.elect("r2")
			wantRead(t, c, 2*time.Second)
			wantKnown(t, c, "http://r1", "http://r2", "http://r3")
		})
	}
}

// What is told that is no URL of the cell's members, as far as the client's own
// rules go, is not called.
func TestLearnedURLs(t *testing.T) {
	evil := []string{"http://evil:7101", "ftp://evil", "https://", "https://me:secret@evil", "https://evil/path", "https://evil?x",
		"https://evil#x", "file:///etc/passwd", "//evil", "evil:7101", "", "https://evil:0", "https://evil:71010", "https://0.0.0.0:1",
		"unix:/run/x", "dns:evil:7101", "https://ev il:1", "https://evil:1\r\nX: y", "https://" + strings.Repeat("e", 600), "javascript:alert(1)"}
	for _, url := range evil {
		if e, err := learnedEndpoint(url, true); err == nil {
			t.Errorf("%q is believed: %s", url, e.base)
		}
	}
	for _, url := range []string{"https://r2:7101", "https://[::1]:7101", "https://r2/"} {
		if _, err := learnedEndpoint(url, true); err != nil {
			t.Error(err)
		}
	}
	if _, err := learnedEndpoint("http://r2:7101", false); err != nil {
		t.Error(err)
	}
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		f.set(func() {
			f.told = &lockapi.URLs{CellID: "fake"}
			for i, url := range append(evil, "https://r2") {
				f.told.Replicas = append(f.told.Replicas, lockapi.ReplicaURL{ID: fmt.Sprint(i), URL: url})
			}
		})
		c := f.knowing(t, Config{}, "https://r1")
		wantRead(t, c, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, c, "https://r1", "https://r2")
		mixed := f.knowing(t, Config{}, "https://r1", "http://r2")
		wantRead(t, mixed, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, mixed, "http://r2", "https://r1")
		only := f.knowing(t, Config{OnlyURLs: true}, "http://r1")
		wantRead(t, only, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, only, "http://r1")
	})
}

// The members of another cell are nobody's.
func TestMembersOfAnotherCell(t *testing.T) {
	inCells(t, false, func(t *testing.T, f *fakeCell, c *Client, cells map[string]string) {
		f.has("r1", "r2", "r3", "r4")
		wantRead(t, c, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, c, "http://r1", "http://r2", "http://r3") // its body says another cell than its header
		f.set(func() { f.told.CellID = "old" })
		wantRead(t, c, time.Second)
		time.Sleep(2 * time.Minute)
		wantKnown(t, c, "http://r1", "http://r2", "http://r3", "http://r4")
	})
}

// blackHoles is a network in which the URLs that the cell tells lead nowhere, as
// behind a NAT: the replicas are at r1, r2 and r3 for the client, and say that they
// are at in1, in2 and in3.
type blackHoles struct {
	*fakeCell
	lost int
}

func (b *blackHoles) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Host, "in") {
		b.set(func() { b.lost++ })
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return b.fakeCell.RoundTrip(r)
}

// What is learned and can't be reached makes nothing worse: over fail-overs and
// replicas that die the calls of a client that learns take no longer than those of
// one that does not, and hardly one goes there.
func TestLearnedInVain(t *testing.T) {
	slowest := map[bool]time.Duration{}
	for _, only := range []bool{true, false} {
		bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
			f.set(func() {
				f.told = &lockapi.URLs{CellID: "fake"}
				for _, id := range []string{"in1", "in2", "in3"} {
					f.told.Replicas = append(f.told.Replicas, lockapi.ReplicaURL{ID: id, URL: "http://" + id})
				}
			})
			b := &blackHoles{fakeCell: f}
			c := f.knowing(t, Config{Transport: b, OnlyURLs: only}, "http://r1", "http://r2", "http://r3")
			wantRead(t, c, time.Second)
			time.Sleep(time.Minute)
			random := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				master := fmt.Sprint("r", 1+random.IntN(3))
				f.set(func() { f.master = "" })
				go func() {
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
					f.elect(master)
				}()
				began := time.Now()
				wantRead(t, c, 10*time.Second)
				slowest[only] = max(slowest[only], time.Since(began))
				time.Sleep(time.Second)
			}
			if all := f.count(func(fakeRequest) bool { return true }); b.lost > all/20 {
				t.Errorf("%d requests went nowhere, and %d elsewhere", b.lost, all)
			}
		})
	}
	if slowest[false] > slowest[true]+mostPause+hedgeAfter {
		t.Errorf("the slowest call took %v, and %v where nothing was learned", slowest[false], slowest[true])
	}
}

// A client that nobody uses asks for nothing, and one that is closed neither.
func TestLooksOnlyWhereUsed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		f.has("r1", "r2", "r3")
		c := f.knowing(t, Config{}, "http://r1")
		time.Sleep(time.Hour)
		wantRead(t, c, time.Second)
		time.Sleep(time.Hour)
		if n := f.count(isLook); n < 1 || n > 2 {
			t.Errorf("%d looks for one call", n)
		}
		n := f.count(isLook)
		wantRead(t, c, time.Second)
		_ = c.Close()
		wantRead(t, c, time.Second)
		time.Sleep(time.Hour)
		if f.count(isLook) != n {
			t.Error("it looks after it was closed")
		}
		left := f.knowing(t, Config{}, "http://r1")
		wantRead(t, left, time.Second)
		f.kill("r1")
		time.Sleep(time.Hour)
		if n := f.count(func(r fakeRequest) bool { return r.at > time.Since(f.start)-50*time.Minute }); n != 0 {
			t.Errorf("%d requests of a client that nobody uses, to a cell that is gone", n)
		}
	})
}

// The clients of a cell do not come all at once, and seldom: when they begin, when
// the master changes, and in between.
func TestLooksAreSpread(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		f.has("r1", "r2", "r3")
		const clients = 150
		for range clients {
			s := open(t, f.knowing(t, Config{}, "http://r1", "http://r2"))
			t.Cleanup(func() { _ = s.Close(context.Background()) })
		}
		wantSpread := func(what string, from time.Duration, over, least, most time.Duration) {
			t.Helper()
			perSecond, n := map[time.Duration]int{}, 0
			for _, r := range f.sent() {
				if isLook(r) && r.at >= from && r.host == "r2" {
					perSecond[(r.at-from)/time.Second]++
					n++
				}
			}
			for s, n := range perSecond {
				if n > clients/2 {
					t.Errorf("%s: %d looks in second %d", what, n, s)
				}
			}
			if n < int(least)*clients || n > int(most)*clients {
				t.Errorf("%s: %d looks in %s", what, n, over)
			}
		}
		time.Sleep(70 * time.Second)
		from := time.Since(f.start)
		f.elect("r2")
		time.Sleep(20 * time.Second)
		wantSpread("a change of master", from, 20*time.Second, 1, 2)
		from = time.Since(f.start)
		time.Sleep(3 * time.Minute)
		wantSpread("three minutes", from, 3*time.Minute, 2, 6)
	})
}

// Where all that was given has become another cell's, those that were learned are
// asked before the client gives up.
func TestGivenAreAnotherCells(t *testing.T) {
	inCells(t, false, func(t *testing.T, f *fakeCell, c *Client, cells map[string]string) {
		f.has("r4")
		f.set(func() { f.told.CellID = "old"; cells["r4"] = "old" })
		wantRead(t, c, time.Second)
		time.Sleep(time.Minute)
		f.set(func() { cells["r1"], cells["r2"], cells["r3"] = "new", "new", "new" })
		f.elect("r4")
		wantRead(t, c, 5*time.Second)
		f.kill("r4")
		f.elect("r1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.ReadLock(ctx, "/a"); !errors.Is(err, ErrOtherCell) {
			t.Error(err)
		}
	})
}
