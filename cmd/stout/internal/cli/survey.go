package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// probeTimeout limits the wait for one replica after others have answered,
	// or when a failed command looks for the cause.
	probeTimeout = time.Second
	// surveyPatience is how long a survey continues after the first answer. A
	// replica needs 1.5 s to report that its master hangs.
	surveyPatience = 1500 * time.Millisecond
	// askAgain is the time until a replica without a master is asked again
	// while others are pending: a master may be elected any moment.
	askAgain = 300 * time.Millisecond
)

// picture is the result of a survey.
type picture struct {
	lockapi.Cell
	// silent has, by id, why replicas that were asked directly did not answer.
	silent map[string]error
	failed map[string]error // why servers did not describe the cell, if none did
}

// survey asks all replicas for the state of the cell at once, so that a hanging
// replica does not delay the others. The first view with a master in office is
// the result. Without one, survey also asks the replicas named in the views,
// and then each replica for its own state: mastership may have moved. It ends
// within the given time, and fails only if no replica answers.
func (a *app) survey(ctx context.Context, within time.Duration) (picture, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	best, failed := a.views(ctx)
	switch {
	case best == nil:
		for _, err := range failed {
			if ask.IsDenial(err) {
				return picture{failed: failed}, err
			}
		}
		return picture{failed: failed}, a.unreachable(failed, within)
	case ask.InOffice(*best):
		return picture{Cell: *best}, nil
	}
	return a.askEach(ctx, *best), nil
}

// cell is survey without the details.
func (a *app) cell(ctx context.Context, within time.Duration) (lockapi.Cell, error) {
	seen, err := a.survey(ctx, within)
	return seen.Cell, err
}

// views asks each replica for the cell until it fails. It returns the first view
// with a master in office, or else the newest view when every replica has
// answered once or failed; nil if no replica answers. failed has the errors by
// server.
func (a *app) views(ctx context.Context) (best *lockapi.Cell, failed map[string]error) {
	deadline, _ := ctx.Deadline()
	ctx, end := context.WithCancel(ctx)
	defer end()
	var (
		mu      sync.Mutex
		asking  sync.WaitGroup
		asked   = map[string]bool{}
		pending int
	)
	failed = map[string]error{}
	var visit func(url string)
	// saw records a view, and reports whether to ask for another one.
	saw := func(url string, cell lockapi.Cell, err error, first bool) bool {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		held := err == nil && ask.InOffice(cell)
		switch {
		case err != nil:
			failed[url] = err
		case held, best == nil || cell.Epoch > best.Epoch:
			if best == nil { // askEach needs the rest of the time
				time.AfterFunc(min(surveyPatience, time.Until(deadline)/2), end)
			}
			best = &cell
		}
		for _, r := range cell.Replicas {
			visit(r.URL)
		}
		if first {
			pending--
		}
		if held || pending == 0 {
			end()
		}
		return err == nil
	}
	visit = func(url string) {
		if asked[url] {
			return
		}
		asked[url] = true
		pending++
		asking.Go(func() {
			for first, more := true, true; more; first = false {
				cell, err := a.admin.CellAt(ctx, url)
				more = saw(url, cell, err, first) && ask.Sleep(ctx, askAgain) == nil
			}
		})
	}
	mu.Lock()
	for _, url := range a.opts.servers {
		visit(url)
	}
	mu.Unlock()
	asking.Wait()
	return best, failed
}

// askEach completes the view of a replica that knows only itself, because there
// is no master: it asks each replica for its own state. If one reports itself
// as master, its view is the result.
func (a *app) askEach(ctx context.Context, cell lockapi.Cell) picture {
	ctx, settled := context.WithTimeout(ctx, probeTimeout)
	defer settled()
	out := picture{Cell: cell, silent: make(map[string]error)}
	own, failed := make([]lockapi.Replica, len(cell.Replicas)), make([]error, len(cell.Replicas))
	// The named servers are also asked: the members' own URLs may not be
	// reachable from here, or DNS may fail.
	named := make([]lockapi.Replica, len(a.opts.servers))
	var asking sync.WaitGroup
	for i, url := range a.opts.servers {
		asking.Go(func() { named[i], _ = a.admin.Replica(ctx, url) })
	}
	var now atomic.Pointer[lockapi.Cell]
	ask.Each(cell.Replicas, func(i int, r lockapi.Replica) {
		if failed[i] = a.mayCall(r.URL); failed[i] != nil {
			return
		}
		if own[i], failed[i] = a.admin.Replica(ctx, r.URL); failed[i] != nil || own[i].ID != r.ID || own[i].Role != lockapi.RoleMaster {
			return
		}
		if view, err := a.admin.CellAt(ctx, r.URL); err == nil && ask.InOffice(view) {
			now.Store(&view)
			settled()
		}
	})
	if view := now.Load(); view != nil {
		return picture{Cell: *view}
	}
	asking.Wait()
	for i := range cell.Replicas {
		r := &out.Replicas[i]
		if j := slices.IndexFunc(named, func(n lockapi.Replica) bool { return n.ID == r.ID }); failed[i] != nil && j >= 0 {
			own[i], failed[i] = named[j], nil
		}
		if failed[i] != nil || own[i].ID != r.ID {
			r.Healthy = false
			if failed[i] != nil {
				out.silent[r.ID] = failed[i]
			}
			continue
		}
		url := r.URL // keep the URL at which it was found
		*r = own[i]
		r.URL = url
	}
	return out
}

// mayCall returns why a URL from the cell must not be called, or nil.
func (a *app) mayCall(url string) error { return a.asker().MayCall(url) }

// unreachable returns an error with the problem of each server, and advice. A
// server missing from failed did not answer within the given time.
func (a *app) unreachable(failed map[string]error, within time.Duration) *failure {
	out := &failure{code: exitUnreachable, message: "no replica can be reached"}
	waits, strangers, answers := 0, 0, 0
	var unnamed *net.DNSError
	for _, url := range a.opts.servers {
		err := cmp.Or(failed[url], context.DeadlineExceeded)
		if several, ok := err.(interface{ Unwrap() []error }); ok { // the addresses of a DNS name
			for _, err := range several.Unwrap() {
				at, _, _ := strings.Cut(err.Error(), ": ")
				out.detail("%s: %s: %s", url, format.Clean(at), reason(err, within))
			}
			continue
		}
		out.detail("%s: %s", url, reason(err, within))
		errors.As(err, &unnamed)
		if _, ok := distrust(err); ok {
			answers++
		}
		if refused, ok := errors.AsType[*lockapi.Error](err); ok {
			answers++
			if refused.Directory != "" {
				waits++
			}
			if refused.Directory != "" && refused.Command != "" {
				strangers++
			}
		}
	}
	if waits > 0 {
		out.message = "no replica of a cell can be reached"
	}
	switch {
	case strangers > 0:
		return out.hint("also name the other replicas, with --server or %s: stout status then shows the command to repair it", serverEnv)
	case waits > 0:
		return out.hint("a cell is founded when all its replicas run and reach each other")
	}
	if answers > 0 {
		return out // the details contain the advice
	}
	if unnamed != nil {
		return out.hint("is %s known to DNS? you can also name the replicas' API addresses with --server or %s", format.Clean(unnamed.Name), serverEnv)
	}
	return out.hint("name the replicas' API addresses with --server or %s; is stoutd running there?", serverEnv)
}

// reason returns why a replica did not answer a question within the given time:
// its own error, or the innermost error, such as "connection refused", without
// the names of calls.
func reason(err error, within time.Duration) string {
	refused, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case ok:
		return "answers: " + ownReason(refused)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within " + format.Human(within)
	}
	if why, ok := distrust(err); ok {
		return why
	}
	return format.Clean(ask.Innermost(err).Error())
}

// ownReason returns a replica's error without the command at its end. The
// server at that address must not choose what an operator types.
func ownReason(refused *lockapi.Error) string {
	why, _, _ := strings.Cut(refused.Detail, "; to admit it:")
	return format.Clean(why)
}

// asker returns a Poller for calls to single replicas.
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

// askCells asks each server for its cell in the background, in at most a second.
// The result is an error if there are several cells, else nil. DNS names are not
// asked, because they stand for many servers.
func (a *app) askCells(ctx context.Context) <-chan *failure {
	out := make(chan *failure, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		ids := make([]string, len(a.opts.servers))
		ask.Each(a.opts.servers, func(i int, url string) { ids[i] = a.cellIDAt(ctx, url) })
		out <- severalCells(ids, a.opts.servers)
	}()
	return out
}

func severalCells(ids, servers []string) *failure {
	cells := map[string][]string{}
	for i, id := range ids {
		if id != "" {
			cells[id] = append(cells[id], format.Clean(servers[i]))
		}
	}
	if len(cells) < 2 {
		return nil
	}
	out := &failure{code: exitFailed, message: fmt.Sprintf("replicas of %d cells answer: only one cell is shown, and locks of different cells are independent", len(cells))}
	for _, id := range slices.Sorted(maps.Keys(cells)) {
		out.detail("cell with id %s: %s", format.Clean(id), strings.Join(cells[id], ", "))
	}
	return out.hint("after stoutd recover or restore, stop the replicas of the former cell; else name servers of one cell only")
}

// thatMayBeRead returns hedge if an empty list may be incomplete: access
// control is on and the caller, not an operator, may not read everything. It
// takes at most one second; without an answer it returns hedge.
func (a *app) thatMayBeRead(ctx context.Context, hedge string) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var operates atomic.Bool
	ask.Each(a.opts.servers, func(_ int, url string) {
		var who lockapi.WhoAmI
		if ask.IsName(url) {
			return
		}
		if _, err := a.asker().Get(ctx, url, lockapi.RouteWhoAmI+"?rights=true&consistency=stale", &who); err == nil && who.Operate {
			operates.Store(true)
			cancel() // the other answers are not needed
		}
	})
	if operates.Load() {
		return ""
	}
	return hedge
}

// remembered returns the history of a path that the answering replica keeps,
// extended by older events of other replicas, up to limit events of each.
// Servers named by URLs are asked, for at most a second.
func (a *app) remembered(ctx context.Context, path string, limit int) (lockapi.History, error) {
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	more := wait.Go(func() ([]part, error) {
		all := make([]part, len(a.opts.servers))
		query := url.Values{"path": {path}, "limit": {strconv.Itoa(limit)}}
		ask.Each(a.opts.servers, func(i int, server string) {
			if ask.IsName(server) {
				return
			}
			var h lockapi.History
			if header, err := a.asker().Get(asking, server, lockapi.RouteHistory+"?"+query.Encode(), &h); err == nil {
				all[i] = part{h, header.Get(lockapi.HeaderCell)}
			}
		})
		return all, nil
	})
	h, err := a.admin.History(ctx, path, limit)
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
