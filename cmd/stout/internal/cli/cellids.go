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

// asker calls single replicas, beside the client.
func (a *app) asker() ask.Asker {
	return ask.Asker{Servers: slices.Clone(a.opts.servers), TLS: a.tlsSource(), Token: a.token, Agent: "stout/" + buildinfo.Version(), Via: a.via}
}

// cellIDAt is the id of the cell of the replica at url; empty where nobody tells, and
// where that cell has had no master yet: a founding that was cut off may begin anew,
// with another id. Whoever is there may be no replica of this cell: no token is shown.
func (a *app) cellIDAt(ctx context.Context, url string) string {
	if ask.IsName(url) || a.mayCall(url) != nil {
		return ""
	}
	stranger := a.asker()
	stranger.Token = nil
	header, _ := stranger.Get(ctx, url, lockapi.RouteLive, nil) // the header says it, whatever the answer
	if header.Get(lockapi.HeaderEpoch) == "0" {
		return ""
	}
	return lockapi.Clip(header.Get(lockapi.HeaderCell))
}

// askCells is cellsOf beside what is done meanwhile.
func (a *app) askCells(ctx context.Context) <-chan *failure {
	out := make(chan *failure, 1)
	go func() { out <- a.cellsOf(ctx) }()
	return out
}

// cellsOf asks each server that was given of which cell it is, in a second at most. It
// returns what is to be said where they are of several, else nil. A server that is a
// name of the DNS is not asked: it stands for many.
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
	out := &failure{code: exitFailed, message: fmt.Sprintf("replicas of %d cells answer: what is shown is one of them, and a lock of the one is no lock of the other", len(order))}
	for _, id := range order {
		out.tell("of the cell with id %s: %s", clean(id), strings.Join(servers[id], ", "))
	}
	return out.hint("after stoutd recover or restore stop the replicas of the former cell; else name servers of one cell only")
}

// thatMayBeRead returns hedge if an empty list may not be all there is: access is on,
// and the caller, who does not operate the cell, may not read the rest. It takes one
// second to find out; if no replica says, the caller may not.
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
