package inspect

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

// remembered returns the history of a path that the answering replica keeps,
// extended by older events of other replicas, up to limit events of each.
// Servers named by URLs are asked, for at most a second.
func (a *explainer) remembered(ctx context.Context, path string, limit int) (lockapi.History, error) {
	asking, cancel := context.WithTimeout(ctx, survey.ProbeTimeout)
	defer cancel()
	more := wait.Go(func() ([]part, error) {
		all := make([]part, len(a.Options.Servers))
		query := url.Values{"path": {path}, "limit": {strconv.Itoa(limit)}}
		ask.Each(a.Options.Servers, func(i int, server string) {
			if ask.IsName(server) {
				return
			}
			var h lockapi.History
			if header, err := a.Asker().Get(asking, server, lockapi.RouteHistory+"?"+query.Encode(), &h); err == nil {
				all[i] = part{h, header.Get(lockapi.HeaderCell)}
			}
		})
		return all, nil
	})
	h, err := a.Admin.History(ctx, path, limit)
	if err != nil || h.More {
		return h, err
	}
	return joined(h, (<-more).Value), nil
}

// part is the history that one replica keeps, and the id of its cell.
type part struct {
	lockapi.History
	cell string
}

// joined extends a history by older events of other replicas. A part with a gap
// before h is left out; parts of several cells are all left out.
func joined(h lockapi.History, others []part) lockapi.History {
	others = slices.DeleteFunc(others, func(o part) bool { return o.Path != h.Path })
	for _, o := range others {
		if o.cell != others[0].cell {
			return h
		}
	}
	slices.SortFunc(others, func(x, y part) int { return cmp.Compare(x.Oldest, y.Oldest) })
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
