package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/lockapi"
)

// asker returns an Poller for calls to single replicas.
func (a *app) asker() ask.Poller {
	return ask.Poller{Servers: slices.Clone(a.opts.servers), TLS: a.tlsSource(), Token: a.token, Agent: "stout/" + buildinfo.Version(), Via: a.via}
}

// cellIDAt returns the id of the cell of the replica at url. It is empty if
// unknown or if that cell has had no master yet: an interrupted founding may
// start again with another id. The call sends no token, because the server may
// be outside this cell.
func (a *app) cellIDAt(ctx context.Context, url string) string {
	if ask.IsName(url) || a.mayCall(url) != nil {
		return ""
	}
	stranger := a.asker()
	stranger.Token = nil
	header, _ := stranger.Get(ctx, url, lockapi.RouteLive, nil) // every answer has the header
	if header.Get(lockapi.HeaderEpoch) == "0" {
		return ""
	}
	return lockapi.Clip(header.Get(lockapi.HeaderCell))
}

// askCells runs cellsOf in the background.
func (a *app) askCells(ctx context.Context) <-chan *failure {
	out := make(chan *failure, 1)
	go func() { out <- a.cellsOf(ctx) }()
	return out
}

// cellsOf asks each server for its cell, in at most a second. It returns an
// error if there are several cells, else nil. DNS names are not asked, because
// they stand for many servers.
func (a *app) cellsOf(ctx context.Context) *failure {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	ids := make([]string, len(a.opts.servers))
	ask.Each(a.opts.servers, func(i int, url string) { ids[i] = a.cellIDAt(ctx, url) })
	var order []string
	servers := map[string][]string{}
	for i, id := range ids {
		if id == "" {
			continue
		}
		if !slices.Contains(order, id) {
			order = append(order, id)
		}
		servers[id] = append(servers[id], clean(a.opts.servers[i]))
	}
	if len(order) < 2 {
		return nil
	}
	out := &failure{code: exitFailed, message: fmt.Sprintf("replicas of %d cells answer: only one cell is shown, and locks of different cells are independent", len(order))}
	for _, id := range order {
		out.detail("cell with id %s: %s", clean(id), strings.Join(servers[id], ", "))
	}
	return out.hint("after stoutd recover or restore, stop the replicas of the former cell; else name servers of one cell only")
}

// thatMayBeRead returns hedge if an empty list may be incomplete: access
// control is on and the caller, not an operator, may not read everything. It
// takes at most one second; without an answer it returns hedge.
func (a *app) thatMayBeRead(ctx context.Context, hedge string) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	asker := a.asker()
	sees := make(chan bool, len(a.opts.servers))
	for _, url := range a.opts.servers {
		go func() {
			var who lockapi.WhoAmI
			if !ask.IsName(url) {
				_, _ = asker.Get(ctx, url, lockapi.RouteWhoAmI+"?rights=true&consistency=stale", &who)
			}
			sees <- who.Operate
		}()
	}
	for range a.opts.servers {
		if <-sees {
			return ""
		}
	}
	return hedge
}
