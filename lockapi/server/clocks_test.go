package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// hand drives the clocks of several replicas. Reading a clock does not change
// it, so additional readings do not affect the test.
type hand struct{ at atomic.Int64 }

// clock returns a clock that runs this many times as fast as the hand.
func (h *hand) clock(times float64) func() time.Duration {
	return func() time.Duration { return time.Duration(times * float64(h.at.Load())) }
}

func (h *hand) move(d time.Duration) { h.at.Add(int64(d)) }

// value returns the value of one series on the page.
func value(t *testing.T, page, series string) float64 {
	t.Helper()
	for line := range strings.SplitSeq(page, "\n") {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			must(t, err)
			return v
		}
	}
	t.Fatalf("no %s in %s", series, page)
	return 0
}

// A replica measures the rates of the others' clocks, and reports the possible
// error.
func TestClockRates(t *testing.T) {
	var present hand
	other := startMaster(t, func(o *server.Options) { o.Clock = present.clock(1.5) })
	n := startNode(t, "r2", func(o *server.Options) { o.Clock, o.Drift = present.clock(1), 0.01 })
	n.setMaster(3, "r1", other.url)
	n.setReplicas(lockapi.Replica{ID: "r1", URL: other.url}, lockapi.Replica{ID: "r2", URL: n.url})
	const difference, err = `stout_member_clock_rate_difference_ratio{replica="r1"}`, `stout_member_clock_rate_error_ratio{replica="r1"}`
	if strings.Contains(call(t, "GET", n.url+"/metrics", "").body, difference) {
		t.Error("something is known before the first look")
	}
	// Most calls share earlier answers and read no clock.
	page := ""
	for calls := 0; !strings.Contains(page, difference) || value(t, page, err) > 0.05; calls++ {
		if calls == 10_000 {
			t.Fatal("it does not find out")
		}
		present.move(5 * time.Second)
		call(t, "GET", n.url+"/v1/cell", "", "Stout-Forward", "never").wantStatus(t, http.StatusOK)
		page = call(t, "GET", n.url+"/metrics", "").body
	}
	if d, e := value(t, page, difference), value(t, page, err); d-e > 0.5 || d+e < 0.5 {
		t.Errorf("a difference of %v within %v, want 0.5", d, e)
	}
	if got := value(t, page, "stout_clock_rate_difference_max_ratio"); got != 0.02/0.99 {
		t.Errorf("%v is allowed", got)
	}
	wantSeries(t, n, `stout_member_clock_rate_difference_ratio{replica="r2"} 0`, `stout_member_clock_rate_error_ratio{replica="r2"} 0`)
}

// Only members see the readings of a clock.
func TestClocksAreShownToMembers(t *testing.T) {
	var present hand
	present.move(time.Second)
	n := startMaster(t, func(o *server.Options) { o.Clock = present.clock(1) })
	if h := call(t, "GET", n.url+"/v1/replica", "").header; h.Get("Stout-Clock") != "" {
		t.Errorf("everybody is told: %v", h)
	}
	if got := behind(n.server, "GET", "/v1/replica").header.Get("Stout-Clock"); !strings.HasSuffix(got, " 1000000000") {
		t.Errorf("a member is told %q", got)
	}
}
