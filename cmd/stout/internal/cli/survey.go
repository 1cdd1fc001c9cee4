package cli

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// probeTimeout bounds how long one replica is waited for when others have
	// answered, or when a failed command goes on to find out why.
	probeTimeout = time.Second
	// surveyPatience is how much longer than the first answer a survey takes. A
	// replica whose master hangs needs a second and a half to say so.
	surveyPatience = 1500 * time.Millisecond
	// askAgain is how soon a replica that knew of no master is asked again,
	// while others are waited for: one may be elected any moment.
	askAgain = 300 * time.Millisecond
)

// picture is what a survey found.
type picture struct {
	lockapi.Cell
	// silent has why replicas did not answer that were asked themselves, by id.
	silent map[string]error
	failed map[string]error // why servers did not tell of the cell, where none did
}

// survey asks the replicas for the state of the cell, all at once, so that none
// which hangs or is down stands in the way of the others. The first that shows
// a master in office settles it. Where none does, those that the answers name
// are asked too, and it takes a replica's time to answer for all of them. Then
// each is asked for itself: mastership may have moved meanwhile. All of it ends
// within the given time; it is an error only if none answers in that.
func (a *app) survey(ctx context.Context, within time.Duration) (picture, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s := asking{c: a.client, asked: make(map[string]bool), failed: make(map[string]error), heard: make(chan opinion)}
	for _, url := range a.opts.servers {
		s.ask(ctx, url)
	}
	best := s.best(ctx)
	switch {
	case best == nil && s.denied() != nil:
		return picture{failed: s.failed}, s.denied()
	case best == nil:
		return picture{failed: s.failed}, a.unreachable(s.failed, within)
	case ask.InOffice(*best):
		return picture{Cell: *best}, nil
	}
	return a.askEach(ctx, *best), nil
}

// denied is the refusal of a replica that lets nobody see the cell who may not
// observe it; nil where there is none.
func (s *asking) denied() error {
	for _, err := range s.failed {
		if ask.IsDenial(err) {
			return err
		}
	}
	return nil
}

// best is the first view that shows a master in office, or else the newest; nil
// where no replica answers.
func (s *asking) best(ctx context.Context) (best *lockapi.Cell) {
	var late <-chan time.Time
	for s.pending > 0 {
		var o opinion
		select {
		case o = <-s.heard:
		case <-late:
			return best
		case <-ctx.Done():
			return best
		}
		if o.first {
			s.pending--
		}
		switch {
		case o.err != nil:
			s.failed[o.url] = o.err
			continue
		case ask.InOffice(o.cell):
			return &o.cell
		case best == nil || o.cell.Epoch > best.Epoch:
			best = &o.cell
		}
		if late == nil {
			late = time.After(min(surveyPatience, remaining(ctx)/2)) // the rest is for askEach
		}
		for _, r := range o.cell.Replicas {
			s.ask(ctx, r.URL)
		}
	}
	return best
}

// opinion is what one replica says of the cell.
type opinion struct {
	url   string
	first bool // that this replica has told
	cell  lockapi.Cell
	err   error
}

// asking is a round of questions to replicas. Each is asked until it fails, and
// the round is over when all have had their first say.
type asking struct {
	c       *client.Client
	asked   map[string]bool // by URL
	failed  map[string]error
	pending int
	heard   chan opinion
}

func (s *asking) ask(ctx context.Context, url string) {
	if s.asked[url] {
		return
	}
	s.asked[url] = true
	s.pending++
	go func() {
		o := opinion{url: url, first: true}
		for ok := true; ok && o.err == nil; o.first = false {
			o.cell, o.err = s.c.CellAt(ctx, url)
			select {
			case s.heard <- o:
			case <-ctx.Done():
			}
			ok = sleep(ctx, askAgain)
		}
	}()
}

// remaining is what is left of a context that has a deadline.
func remaining(ctx context.Context) time.Duration {
	end, _ := ctx.Deadline()
	return time.Until(end)
}

// askEach completes the view of a replica, which knows only itself where there
// is no master: it asks each for its own state. One that calls itself master by
// now is asked for its view, and that has the last word.
func (a *app) askEach(ctx context.Context, cell lockapi.Cell) picture {
	ctx, settled := context.WithTimeout(ctx, probeTimeout)
	defer settled()
	out := picture{Cell: cell, silent: make(map[string]error)}
	own, failed := make([]lockapi.Replica, len(cell.Replicas)), make([]error, len(cell.Replicas))
	// Those that were named here are asked by these names too: what a replica is called
	// by in its cell may mean nothing here, or the DNS may be silent.
	named := make([]lockapi.Replica, len(a.opts.servers))
	var asking sync.WaitGroup
	for i, url := range a.opts.servers {
		asking.Go(func() { named[i], _ = a.client.Replica(ctx, url) })
	}
	var now atomic.Pointer[lockapi.Cell]
	ask.Each(cell.Replicas, func(i int, r lockapi.Replica) {
		if failed[i] = a.mayCall(r.URL); failed[i] != nil {
			return
		}
		if own[i], failed[i] = a.client.Replica(ctx, r.URL); failed[i] != nil || own[i].ID != r.ID || own[i].Role != lockapi.RoleMaster {
			return
		}
		if view, err := a.client.CellAt(ctx, r.URL); err == nil && ask.InOffice(view) {
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
		url := r.URL // where it is found, whatever it was told
		*r = own[i]
		r.URL = url
	}
	return out
}

// mayCall returns why a URL that the cell has told is not to be called.
func (a *app) mayCall(url string) error {
	asker := a.asker()
	return asker.MayCall(url)
}

// unreachable says of each server what was wrong with it, and what to do. One
// that is not in failed did not answer within the given time.
func (a *app) unreachable(failed map[string]error, within time.Duration) *failure {
	out := &failure{code: exitUnreachable, message: "no replica can be reached"}
	waits, strangers := 0, 0
	var unnamed *net.DNSError
	for _, url := range a.opts.servers {
		err := cmp.Or(failed[url], context.DeadlineExceeded)
		if several, ok := err.(interface{ Unwrap() []error }); ok { // of those that a name stands for
			for _, err := range several.Unwrap() {
				at, _, _ := strings.Cut(err.Error(), ": ")
				out.tell("%s: %s: %s", url, clean(at), reason(err, within))
			}
			continue
		}
		out.tell("%s: %s", url, reason(err, within))
		errors.As(err, &unnamed)
		if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Directory != "" {
			waits++
			if refused.Command != "" {
				strangers++
			}
		}
	}
	if waits > 0 {
		out.message = "no replica of a cell can be reached"
	}
	switch {
	case strangers > 0:
		return out.hint("name the other replicas, too, with --server or %s: stout status then has the command that mends it", serverEnv)
	case waits > 0:
		return out.hint("a cell is founded once all its replicas run and see each other")
	}
	if unnamed != nil {
		return out.hint("does the DNS have %s? the replicas' API addresses will do as well, with --server or %s", clean(unnamed.Name), serverEnv)
	}
	return out.hint("name the replicas' API addresses with --server or %s; is stoutd running there?", serverEnv)
}

// reason is why a replica did not answer a question within the given time: what
// it says itself, or the innermost part of an error, that the connection was
// refused, not by which call of whose library.
func reason(err error, within time.Duration) string {
	refused, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case ok:
		return "answers: " + saying(refused)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within " + human(within)
	}
	if why, ok := distrust(err); ok {
		return why
	}
	return clean(ask.Innermost(err).Error())
}

// saying is what a replica says of itself, without the command that it ends
// with: whoever answers at a replica's address does not choose what an operator
// types.
func saying(refused *lockapi.Error) string {
	why, _, _ := strings.Cut(refused.Detail, "; to admit it:")
	return clean(why)
}
