package docs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRegions checks docs/regions.md with five voters in three regions: what crosses
// between them, and which loss of a region the cell survives.
func TestRegions(t *testing.T) {
	t.Parallel()
	const oneWay = 50 * time.Millisecond
	c := cell.New(t, cell.Options{Size: 5, Network: true, Args: []string{"--heartbeat-timeout=2s"}})
	c.Ready(t)
	all := c.Replicas()
	region := map[string]int{"r1": 0, "r2": 0, "r3": 1, "r4": 1, "r5": 2}
	for _, from := range all {
		for _, to := range all {
			if region[from.ID] != region[to.ID] {
				c.Network().Shape(from.ID, to.ID, cell.Shape{Latency: oneWay})
			}
		}
	}
	ctx := cell.Bounded(t)
	call := func(r *cell.Replica, method, path string, in any) error {
		status, err := r.Call(ctx, method, path, in, nil)
		if err == nil && status >= 300 {
			err = fmt.Errorf("%s %s: %d", method, path, status)
		}
		return err
	}
	move := func(to string) *cell.Replica {
		err := cell.Wait(ctx, "the transfer to "+to, func(context.Context) error {
			return call(all[0], http.MethodPost, "/v1/cell/transfer", map[string]string{"to": to})
		})
		must(t, err)
		return c.WaitMasterOf(t, all...)
	}
	// fastest returns the shortest duration of several calls, which a busy machine
	// prolongs least.
	fastest := func(r *cell.Replica, method, path string, in any) time.Duration {
		least := time.Hour
		for range 10 {
			began := time.Now()
			must(t, call(r, method, path, in))
			least = min(least, time.Since(began))
		}
		return least
	}
	master := move("r1")
	if took := fastest(master, http.MethodPut, "/v1/files/region", nil); took < 2*oneWay {
		t.Errorf("a change took %v, less than a round trip to another region", took)
	}
	if took := fastest(master, http.MethodGet, "/v1/locks/region", nil); took >= 2*oneWay {
		t.Errorf("a read at the master took %v, as long as a round trip to another region", took)
	}
	if took := fastest(all[4], http.MethodGet, "/v1/locks/region?consistency=stale", nil); took >= 2*oneWay {
		t.Errorf("a stale read took %v, as long as a round trip to another region", took)
	}
	if took := fastest(all[4], http.MethodGet, "/v1/locks/region", nil); took < 2*oneWay {
		t.Errorf("a read far from the master took %v, less than a round trip", took)
	}

	// The master's region is lost: three of five continue.
	for _, r := range all[:2] {
		must(t, r.Kill())
	}
	c.WaitMasterOf(t, all[2:]...)
	if _, err := cell.Insist(ctx, all[2:], http.MethodPut, "/v1/files/region/left", nil, nil); err != nil {
		t.Fatal(err)
	}
	// Only one of the two other regions is left: two of five do not.
	must(t, all[4].Kill())
	err := cell.Wait(ctx, "the end of the lease", func(context.Context) error {
		if err := call(all[2], http.MethodGet, "/v1/locks/region", nil); err == nil {
			return errors.New("it still answers")
		}
		return nil
	})
	must(t, err)
	if err := call(all[2], http.MethodPut, "/v1/files/region/lost", nil); err == nil {
		t.Error("two of five made a change")
	}
	if err := call(all[2], http.MethodGet, "/v1/locks/region?consistency=stale", nil); err != nil {
		t.Errorf("a stale read without a majority: %v", err)
	}
}
