package cli

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

// remembered is what the replicas remember of a path, up to so many events of each. It
// is what the replica does that answers the client, and what others remember from
// before that. Servers that are named by their URLs are asked, for a second.
func (a *app) remembered(ctx context.Context, path string, limit int) (lockapi.History, error) {
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	more := wait.Go(func() ([]told, error) {
		all := make([]told, len(a.opts.servers))
		asker, query := a.asker(), url.Values{"path": {path}, "limit": {strconv.Itoa(limit)}}
		ask.Each(a.opts.servers, func(i int, server string) {
			if ask.IsName(server) {
				return
			}
			var h lockapi.History
			if header, err := asker.Get(asking, server, lockapi.RouteHistory+"?"+query.Encode(), &h); err == nil {
				all[i] = told{h, header.Get(lockapi.HeaderCell)}
			}
		})
		return all, nil
	})
	h, err := a.client.History(ctx, path, limit)
	if err != nil || h.More {
		return h, err
	}
	return joined(h, (<-more).Value), nil
}

// told is what one replica remembers, and the id of its cell.
type told struct {
	lockapi.History
	cell string
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
