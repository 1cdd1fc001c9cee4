package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// seesAll says whether an empty list is one of all there is: access is off, or the
// caller operates the cell. Else what he may not read is not in it. One second is taken
// to find out; where nobody says, he may not.
func (a *app) seesAll(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	told := make(chan bool, len(a.opts.servers))
	for _, url := range a.opts.servers {
		go func() { told <- a.operates(ctx, url) }()
	}
	for range a.opts.servers {
		select {
		case yes := <-told:
			if yes {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// operates says whether the replica at url takes the caller for one who operates the
// cell, as everybody does while access is off.
func (a *app) operates(ctx context.Context, url string) bool {
	if !strings.Contains(url, "://") || strings.HasPrefix(url, "dns+") {
		return false
	}
	resp, err := a.call(ctx, url, lockapi.RouteWhoAmI+"?rights=true&consistency=stale")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var who lockapi.WhoAmI
	err = json.NewDecoder(io.LimitReader(resp.Body, mostReplica)).Decode(&who)
	return err == nil && resp.StatusCode == http.StatusOK && who.Operate
}

// thatMayBeRead is what an empty list is to be hedged with: nothing where the caller
// sees all.
func (a *app) thatMayBeRead(ctx context.Context, hedge string) string {
	if a.seesAll(ctx) {
		return ""
	}
	return hedge
}
