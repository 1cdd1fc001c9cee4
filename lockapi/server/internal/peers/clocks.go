package peers

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
)

// Leases are safe while the clocks of all replicas run at about the same rate.
// A replica that answers about itself therefore includes a reading of its
// clock. The asking replica derives the clock's rate from many such answers
// (lease.Rates).

// headerClock carries a member's reading of the lease clock in its answer to
// another member: the clock's origin, and nanoseconds.
const headerClock = "Stout-Clock"

// ShowClock adds the reading of this replica's clock to an answer to another
// member.
func (o *Others) ShowClock(h http.Header) {
	if o.clock != nil {
		h[headerClock] = []string{o.origin + " " + strconv.FormatInt(int64(o.clock()), 10)}
	}
}

// send requests another replica's own entry and records the reading of its
// clock.
func (o *Others) send(ctx context.Context, way http.RoundTripper, id string) (got lockapi.Replica, err error) {
	if o.clock == nil {
		return AskReplica(ctx, way, id)
	}
	sent := o.clock()
	h, err := Ask(ctx, way, id, lockapi.RouteReplica, &got)
	came := o.clock()
	if err != nil {
		return got, err
	}
	if origin, other, err := readClock(h.Get(headerClock)); err == nil { // older releases send no reading
		o.ratesOf(id).Saw(origin, lease.Sight{Sent: sent, Came: came, Other: other})
	}
	return got, nil
}

func (o *Others) ratesOf(id string) *lease.Rates {
	m := o.lock(id)
	defer o.mu.Unlock()
	return &m.rates
}

func readClock(value string) (origin string, reads time.Duration, err error) {
	origin, digits, ok := strings.Cut(value, " ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || origin == "" || len(origin) > 64 || err != nil || n < 0 {
		return "", 0, fmt.Errorf("clock %q is not an origin and nanoseconds", value)
	}
	return origin, time.Duration(n), nil
}

// ClockRate returns how much faster a member's clock runs than this replica's,
// as a fraction, and the possible error; false while it is unknown.
func (o *Others) ClockRate(id string) (difference, err float64, ok bool) {
	if o.clock == nil {
		return 0, 0, false
	}
	rate, ok := o.ratesOf(id).Worst(o.clock())
	if !ok {
		return 0, 0, false
	}
	difference, err = rate.Difference()
	return difference, err, true
}
