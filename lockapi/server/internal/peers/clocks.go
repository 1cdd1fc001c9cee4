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

// Leases are safe while the clocks of all replicas run at about the same rate.
// A replica that answers about itself therefore includes a reading of its
// clock. The asking replica derives the clock's rate from many such answers
// (lease.Rates).

// headerClock carries a member's reading of the lease clock in its answer to
// another member: the clock's origin, and nanoseconds.
const headerClock = "Stout-Clock"

// clocks has this replica's clock and the observed rates of the others.
type clocks struct {
	now    func() time.Duration // nil if there is no clock to report
	origin string               // identifies this process; valid only within it

	mu    sync.Mutex
	rates map[string]*lease.Rates // by member
}

func newClocks(now func() time.Duration) clocks {
	var origin [8]byte
	_, _ = rand.Read(origin[:]) // never fails
	return clocks{now: now, origin: hex.EncodeToString(origin[:]), rates: map[string]*lease.Rates{}}
}

// show adds the clock's reading to an answer.
func (c *clocks) show(h http.Header) {
	if c.now != nil {
		h[headerClock] = []string{c.origin + " " + strconv.FormatInt(int64(c.now()), 10)}
	}
}

// of returns the observations of a member's clock.
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

// look requests another replica's own entry and records the reading of its
// clock.
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
	if origin, other, err := readClock(h.Get(headerClock)); err == nil { // older releases send no reading
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
