package peers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
)

// Leases hold while the clocks of all replicas run at about the same rate. So a
// replica that asks another one how it is, is told what the other's clock reads,
// and how fast that runs comes of many such answers (lease.Rates).

// headerClock is what the clock of leases reads at a member, in its answer about
// itself to another one: the origin that it counts from, and nanoseconds.
const headerClock = "Stout-Clock"

// clocks are this replica's own and what is known of the others'.
type clocks struct {
	now    func() time.Duration // nil where there is none to show
	origin string               // of this process: of no use beyond that

	mu    sync.Mutex
	rates map[string]*lease.Rates // by member
}

func newClocks(now func() time.Duration) clocks {
	var origin [8]byte
	_, _ = rand.Read(origin[:]) // never fails
	return clocks{now: now, origin: hex.EncodeToString(origin[:]), rates: map[string]*lease.Rates{}}
}

// show puts what the clock reads into an answer.
func (c *clocks) show(h http.Header) {
	if c.now != nil {
		h[headerClock] = []string{c.origin + " " + strconv.FormatInt(int64(c.now()), 10)}
	}
}

// of is what is known of a member's clock.
func (c *clocks) of(id string) *lease.Rates {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rates[id]
	if r == nil {
		r = new(lease.Rates)
		c.rates[id] = r
	}
	return r
}

// look asks another replica for its own entry, and looks at its clock.
func (c *clocks) look(ctx context.Context, way http.RoundTripper, id string) (got lockapi.Replica, err error) {
	if c.now == nil {
		return AskReplica(ctx, way, id)
	}
	sent := c.now()
	h, err := Ask(ctx, way, id, lockapi.RouteReplica, &got)
	came := c.now()
	if err != nil {
		return got, err
	}
	if origin, other, err := readClock(h.Get(headerClock)); err == nil { // an older release sends none
		c.of(id).Saw(origin, lease.Sight{Sent: sent, Came: came, Other: other})
	}
	return got, nil
}

func readClock(value string) (origin string, reads time.Duration, err error) {
	origin, digits, ok := strings.Cut(value, " ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || origin == "" || len(origin) > 64 || err != nil || n < 0 {
		return "", 0, fmt.Errorf("clock %q: %w", value, errors.Join(errBadClock, err))
	}
	return origin, time.Duration(n), nil
}

var errBadClock = errors.New("not an origin and nanoseconds")

// rate returns how much faster a member's clock runs than this replica's.
func (c *clocks) rate(id string) (difference, err float64, ok bool) {
	if c.now == nil {
		return 0, 0, false
	}
	rate, ok := c.of(id).Worst(c.now())
	if !ok {
		return 0, 0, false
	}
	difference, err = rate.Difference()
	return difference, err, true
}
