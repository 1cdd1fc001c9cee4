package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// remembered is what the replicas remember of a path, up to so many events of each:
// what the one does that answers the client, and before that what others do who
// remember more. Servers that are named by their URLs are asked, for a second.
func (a *app) remembered(ctx context.Context, path string, limit int) (lockapi.History, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	more := make(chan []told, 1)
	go func() { more <- a.historiesOf(ctx, path, limit) }()
	h, err := a.client.History(ctx, path, limit)
	if err != nil || h.More {
		return h, err
	}
	return joined(h, <-more), nil
}

// told is what one replica remembers, and the id of its cell.
type told struct {
	lockapi.History
	cell string
}

func (a *app) historiesOf(ctx context.Context, path string, limit int) []told {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	all := make([]told, len(a.opts.servers))
	each(a.opts.servers, func(i int, server string) {
		if !strings.Contains(server, "://") || strings.HasPrefix(server, "dns+") {
			return
		}
		query := url.Values{"path": {path}, "limit": {strconv.Itoa(limit)}}
		resp, err := a.call(ctx, server, lockapi.RouteHistory+"?"+query.Encode())
		if err != nil {
			return
		}
		defer resp.Body.Close()
		var h lockapi.History
		if err := json.NewDecoder(io.LimitReader(resp.Body, mostMetrics)).Decode(&h); err == nil && resp.StatusCode == http.StatusOK {
			all[i] = told{h, resp.Header.Get(lockapi.HeaderCell)}
		}
	})
	return all
}

// joined is a history that has all that its replica remembers, with what others
// remember from before that. One that has a gap between the two adds nothing, and no
// one does where they are of several cells.
func joined(h lockapi.History, others []told) lockapi.History {
	others = slices.DeleteFunc(others, func(o told) bool { return o.Path != h.Path })
	for _, o := range others {
		if o.cell != others[0].cell {
			return h
		}
	}
	slices.SortFunc(others, func(x, y told) int { return cmp.Compare(x.Oldest, y.Oldest) })
	for _, o := range others {
		if o.Oldest >= h.Oldest || o.Revision < h.Oldest {
			continue
		}
		last := h.Oldest + 1
		if n := len(h.Events); n > 0 {
			last = min(last, h.Events[n-1].Revision)
		}
		events := slices.Clone(h.Events)
		inOrder := true
		for _, e := range o.Events {
			if e.Revision >= last {
				continue
			}
			if n := len(events); n > 0 && events[n-1].Revision <= e.Revision || e.Path != h.Path && e.Type != lockapi.EventMasterChanged {
				inOrder = false
				break
			}
			events = append(events, e)
		}
		if inOrder {
			h.Events, h.Oldest, h.Since, h.More = events, o.Oldest, o.Since, o.More
			return h
		}
	}
	return h
}
