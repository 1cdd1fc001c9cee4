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

// stepping is a clock that goes on by so much whenever it is read.
func stepping(step time.Duration) func() time.Duration {
	var at atomic.Int64
	return func() time.Duration { return time.Duration(at.Add(int64(step))) }
}

// value is that of one series of the page.
func value(t *testing.T, page, series string) float64 {
	t.Helper()
	for line := range strings.SplitSeq(page, "\n") {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %s in %s", series, page)
	return 0
}

// A replica finds out how fast the others' clocks run, and shows how sure it is.
// The asker's clock is read twice for each look, the other one once: that one
// seems to run half as fast again.
func TestClockRates(t *testing.T) {
	other := startMaster(t, func(o *server.Options) { o.Clock = stepping(3 * time.Second) })
	n := startNode(t, "r2", func(o *server.Options) { o.Clock, o.Drift = stepping(time.Second), 0.01 })
	n.setMaster(3, "r1", other.url)
	n.setReplicas(lockapi.Replica{ID: "r1", URL: other.url}, lockapi.Replica{ID: "r2", URL: n.url})
	if strings.Contains(call(t, "GET", n.url+"/metrics", "").body, `stout_member_clock_rate_difference_ratio{replica="r1"}`) {
		t.Error("something is known before the first look")
	}
	for range 30 {
		call(t, "GET", n.url+"/v1/cell", "", "Stout-Forward", "never").wantStatus(t, http.StatusOK)
	}
	page := call(t, "GET", n.url+"/metrics", "").body
	difference, err := value(t, page, `stout_member_clock_rate_difference_ratio{replica="r1"}`), value(t, page, `stout_member_clock_rate_error_ratio{replica="r1"}`)
	if difference-err > 0.5 || difference+err < 0.5 || difference-err < 0.45 {
		t.Errorf("a difference of %v within %v, want one that is certainly near 0.5", difference, err)
	}
	if got := value(t, page, "stout_clock_rate_difference_max_ratio"); got != 0.02/0.99 {
		t.Errorf("%v is allowed", got)
	}
	wantSeries(t, n, `stout_member_clock_rate_difference_ratio{replica="r2"} 0`, `stout_member_clock_rate_error_ratio{replica="r2"} 0`)
}

// What a clock reads is the members' business.
func TestClocksAreShownToMembers(t *testing.T) {
	n := startMaster(t, func(o *server.Options) { o.Clock = stepping(time.Second) })
	if h := call(t, "GET", n.url+"/v1/replica", "").header; h.Get("Stout-Clock") != "" {
		t.Errorf("everybody is told: %v", h)
	}
	if got := behind(n.server, "GET", "/v1/replica").header.Get("Stout-Clock"); !strings.HasSuffix(got, " 1000000000") {
		t.Errorf("a member is told %q", got)
	}
}

// An older release tells nothing, and a clock that makes no sense is not taken.
func TestOtherClocks(t *testing.T) {
	for _, told := range []string{"", "x", "x ", " 5", "x -5", "x 5s", "x 99999999999999999999", strings.Repeat("x", 65) + " 5"} {
		if origin, reads, err := server.ReadClock(told); err == nil {
			t.Errorf("%q: %q, %v", told, origin, reads)
		}
	}
	if origin, reads, err := server.ReadClock("a1 5"); origin != "a1" || reads != 5 || err != nil {
		t.Errorf("%q, %v, %v", origin, reads, err)
	}
}
