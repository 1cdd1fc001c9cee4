package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// mostReplica bounds what is read of a replica's answer about itself.
const mostReplica = 64 << 10

// transport is for calls beside the client: of a replica's metrics, and of headers.
func (a *app) transport() http.RoundTripper {
	if a.via != nil {
		return a.via
	}
	return &http.Transport{DisableKeepAlives: true, TLSClientConfig: a.tlsConfig()}
}

// call makes one call of a replica beside the client, as the caller. The caller closes
// the answer's body.
func (a *app) call(ctx context.Context, url, route string) (*http.Response, error) {
	token := ""
	if a.token != nil {
		token, _ = a.token(ctx) // the replicas refuse who has none
	}
	return a.callAs(ctx, token, url, route)
}

// callAs makes a call with a token, or with none where that is empty.
func (a *app) callAs(ctx context.Context, token, url, route string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+route, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return a.transport().RoundTrip(req)
}

// cellIDAt is the id of the cell of the replica at url; empty where nobody tells, and
// where that cell has had no master yet: a founding that was cut off may begin anew,
// with another id. Whoever is there may be no replica of this cell: no token is shown.
func (a *app) cellIDAt(ctx context.Context, url string) string {
	if !strings.Contains(url, "://") || strings.HasPrefix(url, "dns+") || a.mayCall(url) != nil {
		return ""
	}
	resp, err := a.callAs(ctx, "", url, lockapi.RouteLive)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, mostReplica)
	if resp.Header.Get(lockapi.HeaderEpoch) == "0" {
		return ""
	}
	return lockapi.Clip(resp.Header.Get(lockapi.HeaderCell))
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
	each(a.opts.servers, func(i int, url string) { ids[i] = a.cellIDAt(ctx, url) })
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
