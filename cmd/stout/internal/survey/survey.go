// Package survey asks the replicas of a cell at once and describes the cell:
// its state, what is wrong with a replica, and why a call had no outcome.
// Package ui prints that.
package survey

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// ServerEnv is the environment variable with the servers.
const ServerEnv = "STOUT_SERVER"

const (
	// ProbeTimeout limits the wait for one replica after others have answered,
	// or when a failed command looks for the cause.
	ProbeTimeout = time.Second
	// LastWords limits what a command does after it has given up, such as finding
	// the cause.
	LastWords = time.Second
	// surveyPatience is how long a survey continues after the first answer. A
	// replica needs 1.5 s to report that its master hangs.
	surveyPatience = 1500 * time.Millisecond
	// askAgain is the time until a replica without a master is asked again
	// while others are pending: a master may be elected any moment.
	askAgain = 300 * time.Millisecond
)

// Collector asks the replicas of a cell.
type Collector struct {
	ask.Poller // asks single replicas
	Admin      *admin.Admin
}

// View is the result of a survey.
type View struct {
	lockapi.Cell
	// silent has, by id, why replicas that were asked directly did not answer.
	silent map[string]error
	failed map[string]error // why servers did not describe the cell, if none did
}

// Collect asks all replicas for the state of the cell at once, so that a hanging
// replica does not delay the others. The first view with a master in office is
// the result. Without one, Collect also asks the replicas named in the views,
// and then each replica for its own state: mastership may have moved. It ends
// within the given time, and fails only if no replica answers.
func (c Collector) Collect(ctx context.Context, within time.Duration) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	best, failed := c.views(ctx)
	switch {
	case best == nil:
		for _, err := range failed {
			if ask.IsDenial(err) {
				return View{failed: failed}, err
			}
		}
		return View{failed: failed}, c.Unreachable(failed, within)
	case ask.InOffice(*best):
		return View{Cell: *best}, nil
	}
	return c.askEach(ctx, *best), nil
}

// Cell is Collect without the details.
func (c Collector) Cell(ctx context.Context, within time.Duration) (lockapi.Cell, error) {
	seen, err := c.Collect(ctx, within)
	return seen.Cell, err
}

// views asks each replica for the cell until it fails. It returns the first view
// with a master in office, or else the newest view when every replica has
// answered once or failed; nil if no replica answers. failed has the errors by
// server.
func (c Collector) views(ctx context.Context) (best *lockapi.Cell, failed map[string]error) {
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
				cell, err := c.Admin.CellAt(ctx, url)
				more = saw(url, cell, err, first) && ask.Sleep(ctx, askAgain) == nil
			}
		})
	}
	mu.Lock()
	for _, url := range c.Servers {
		visit(url)
	}
	mu.Unlock()
	asking.Wait()
	return best, failed
}

// askEach completes the view of a replica that knows only itself, because there
// is no master: it asks each replica for its own state. If one reports itself
// as master, its view is the result.
func (c Collector) askEach(ctx context.Context, cell lockapi.Cell) View {
	ctx, settled := context.WithTimeout(ctx, ProbeTimeout)
	defer settled()
	out := View{Cell: cell, silent: make(map[string]error)}
	own, failed := make([]lockapi.Replica, len(cell.Replicas)), make([]error, len(cell.Replicas))
	// The named servers are also asked: the members' own URLs may not be
	// reachable from here, or DNS may fail.
	named := make([]lockapi.Replica, len(c.Servers))
	var asking sync.WaitGroup
	for i, url := range c.Servers {
		asking.Go(func() { named[i], _ = c.Admin.Replica(ctx, url) })
	}
	var now atomic.Pointer[lockapi.Cell]
	ask.Each(cell.Replicas, func(i int, r lockapi.Replica) {
		if failed[i] = c.MayCall(r.URL); failed[i] != nil {
			return
		}
		if own[i], failed[i] = c.Admin.Replica(ctx, r.URL); failed[i] != nil || own[i].ID != r.ID || own[i].Role != lockapi.RoleMaster {
			return
		}
		if view, err := c.Admin.CellAt(ctx, r.URL); err == nil && ask.InOffice(view) {
			now.Store(&view)
			settled()
		}
	})
	if view := now.Load(); view != nil {
		return View{Cell: *view}
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

// Unreachable returns an error with the problem of each server, and advice. A
// server missing from failed did not answer within the given time.
func (c Collector) Unreachable(failed map[string]error, within time.Duration) *exit.Failure {
	out := exit.Errorf(exit.Unreachable, "no replica can be reached")
	waits, strangers, answers := 0, 0, 0
	var unnamed *net.DNSError
	for _, url := range c.Servers {
		err := cmp.Or(failed[url], context.DeadlineExceeded)
		if several, ok := err.(interface{ Unwrap() []error }); ok { // the addresses of a DNS name
			for _, err := range several.Unwrap() {
				at, _, _ := strings.Cut(err.Error(), ": ")
				out.Detail("%s: %s: %s", url, format.Clean(at), Reason(err, within))
			}
			continue
		}
		out.Detail("%s: %s", url, Reason(err, within))
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
		out.Message = "no replica of a cell can be reached"
	}
	switch {
	case strangers > 0:
		return out.Hint("also name the other replicas, with --server or %s: stout status then shows the command to repair it", ServerEnv)
	case waits > 0:
		return out.Hint("a cell is founded when all its replicas run and reach each other")
	}
	if answers > 0 {
		return out // the details contain the advice
	}
	if unnamed != nil {
		return out.Hint("is %s known to DNS? you can also name the replicas' API addresses with --server or %s", format.Clean(unnamed.Name), ServerEnv)
	}
	return out.Hint("name the replicas' API addresses with --server or %s; is stoutd running there?", ServerEnv)
}

// Reason returns why a replica did not answer a question within the given time:
// its own error, or the innermost error, such as "connection refused", without
// the names of calls.
func Reason(err error, within time.Duration) string {
	refused, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case ok:
		return "answers: " + OwnReason(refused)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within " + format.Human(within)
	}
	if why, ok := distrust(err); ok {
		return why
	}
	return format.Clean(ask.Innermost(err).Error())
}

// OwnReason returns a replica's error without the command at its end. The
// server at that address must not choose what an operator types.
func OwnReason(refused *lockapi.Error) string {
	why, _, _ := strings.Cut(refused.Detail, "; to admit it:")
	return format.Clean(why)
}

// CellIDAt returns the id of the cell of the replica at url. It is empty if
// unknown or if that cell has had no master yet: an interrupted founding may
// start again with another id. The call sends no token, because the server may
// be outside this cell.
func (c Collector) CellIDAt(ctx context.Context, url string) string {
	if ask.IsName(url) || c.MayCall(url) != nil {
		return ""
	}
	stranger := c.Poller
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
func (c Collector) askCells(ctx context.Context) <-chan *exit.Failure {
	out := make(chan *exit.Failure, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
		defer cancel()
		ids := make([]string, len(c.Servers))
		ask.Each(c.Servers, func(i int, url string) { ids[i] = c.CellIDAt(ctx, url) })
		out <- severalCells(ids, c.Servers)
	}()
	return out
}

func severalCells(ids, servers []string) *exit.Failure {
	cells := map[string][]string{}
	for i, id := range ids {
		if id != "" {
			cells[id] = append(cells[id], format.Clean(servers[i]))
		}
	}
	if len(cells) < 2 {
		return nil
	}
	out := exit.Errorf(exit.Failed, "replicas of %d cells answer: only one cell is shown, and locks of different cells are independent", len(cells))
	for _, id := range slices.Sorted(maps.Keys(cells)) {
		out.Detail("cell with id %s: %s", format.Clean(id), strings.Join(cells[id], ", "))
	}
	return out.Hint("after stoutd recover or restore, stop the replicas of the former cell; else name servers of one cell only")
}

// IfLimited returns hedge if an empty list may be incomplete: access
// control is on and the caller, not an operator, may not read everything. It
// takes at most one second; without an answer it returns hedge.
func (c Collector) IfLimited(ctx context.Context, hedge string) string {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	var operates atomic.Bool
	ask.Each(c.Servers, func(_ int, url string) {
		var who lockapi.WhoAmI
		if ask.IsName(url) {
			return
		}
		if _, err := c.Get(ctx, url, lockapi.RouteWhoAmI+"?rights=true&consistency=stale", &who); err == nil && who.Operate {
			operates.Store(true)
			cancel() // the other answers are not needed
		}
	})
	if operates.Load() {
		return ""
	}
	return hedge
}

// distrust describes why a TLS handshake failed, if that was the problem.
func distrust(err error) (text string, ok bool) {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "does not use TLS there; its URL may begin with http://", true
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return format.Clean(wrong.Error()) + "; use a name in it, or add this one to the certificate", true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by a CA that is not trusted here; name the CA with --ca-cert", true
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "dial" && strings.Contains(alert.Err.Error(), "refuses our certificate") {
		return fmt.Sprintf("%s; name an accepted one with --cert and --key", format.Clean(alert.Err.Error())), true
	}
	return "", false
}
