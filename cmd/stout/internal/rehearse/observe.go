package rehearse

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// Attempt is a call made once, without retries.
type Attempt struct {
	Begun, Ended time.Duration
	Failed       string // an error code, or why there was no answer; empty on success
}

// Limits of the prober.
const (
	every       = 20 * time.Millisecond // between two attempts of a kind
	patience    = 2 * time.Second       // per attempt
	maxInFlight = 256
)

// prober calls the replicas in turn at a steady rate, independent of answers:
// it reads a lock, and takes and releases a shared hold of it. Unlike the
// client it retries nothing, so it sees the whole time without service.
type prober struct {
	ask           ask.Poller
	urls          []string
	session, path string
	begun         time.Time

	mu            sync.Mutex
	reads, writes []Attempt
}

// run makes attempts until ctx ends, and returns when the last one has ended.
// It skips attempts while too many are in flight.
func (p *prober) run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	inFlight := make(chan struct{}, maxInFlight)
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		at, handle := p.urls[n%len(p.urls)]+lockapi.RouteLocks+p.path, strconv.Itoa(n)
		for _, attempt := range []func(){func() { p.read(ctx, at) }, func() { p.write(ctx, at, handle) }} {
			select {
			case inFlight <- struct{}{}:
				all.Go(func() {
					attempt()
					<-inFlight
				})
			default:
			}
		}
	}
}

func (p *prober) read(ctx context.Context, at string) {
	p.record(ctx, &p.reads, func(ctx context.Context) error {
		_, err := p.ask.Call(ctx, http.MethodGet, at, nil, nil)
		return err
	})
}

// write takes a hold and releases it. If the release fails, the end of the
// session does it.
func (p *prober) write(ctx context.Context, at, handle string) {
	req := lockapi.NewLockRequest(p.session)
	req.Mode, req.Handle = lockapi.Shared, handle
	var got lockapi.Grant
	p.record(ctx, &p.writes, func(ctx context.Context) error {
		_, err := p.ask.Call(ctx, http.MethodPut, at, req, &got)
		return err
	})
	if got.Token != 0 {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		query := url.Values{"session": {p.session}, "handle": {handle}, "token": {strconv.FormatUint(got.Token, 10)}}
		_, _ = p.ask.Call(ctx, http.MethodDelete, at+"?"+query.Encode(), nil, nil)
	}
}

// record makes a call and records the result, unless ctx ended first.
func (p *prober) record(ctx context.Context, to *[]Attempt, call func(context.Context) error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := Attempt{Begun: time.Since(p.begun)}
	err := call(within)
	if a.Ended = time.Since(p.begun); err != nil {
		if ctx.Err() != nil {
			return
		}
		a.Failed = "no connection"
		if errors.Is(err, ask.ErrNoAnswer) {
			a.Failed = "no answer"
		}
		if refused, ok := errors.AsType[*lockapi.Error](err); ok {
			a.Failed = string(refused.Code)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, a)
}

func (p *prober) attempts() (reads, writes []Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reads), slices.Clone(p.writes)
}

// Service describes the observed service for one kind of calls.
type Service struct {
	Attempts int            `json:"attempts"`
	Failed   int            `json:"failed"`
	By       map[string]int `json:"failed_by,omitempty"` // error code, or why there was no answer
	// GapMS is the longest time without a successful attempt, and FromMS when it
	// began, relative to the change. UsualMS is the longest such time before the
	// change, and LaterMS the longest one that began after the new office was
	// seen, and so has another cause.
	GapMS   float64 `json:"longest_gap_ms"`
	FromMS  float64 `json:"gap_from_ms"`
	UsualMS float64 `json:"usual_gap_ms"`
	LaterMS float64 `json:"later_gap_ms"`
	// Back is when the gap ended.
	Back time.Duration `json:"-"`
}

// ServiceOf evaluates the attempts until end, given the times of the change and
// of the first sight of the new office. A gap lasts from the end of one
// successful attempt to the end of the next, or to end.
func ServiceOf(attempts []Attempt, change, office, end time.Duration) Service {
	out := Service{By: map[string]int{}, Back: change}
	var done []time.Duration
	for _, a := range attempts {
		if a.Ended > end {
			continue
		}
		out.Attempts++
		if a.Failed != "" {
			out.Failed++
			out.By[a.Failed]++
			continue
		}
		done = append(done, a.Ended)
	}
	slices.Sort(done)
	last := time.Duration(0)
	for _, at := range append(done, end) {
		switch gap := toMS(at - last); {
		case at <= change:
			out.UsualMS = max(out.UsualMS, gap)
		case last >= office:
			out.LaterMS = max(out.LaterMS, gap)
		case gap > out.GapMS:
			out.GapMS, out.FromMS, out.Back = gap, toMS(last-change), at
		}
		last = at
	}
	return out
}

func toMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Listing is one listing of all sessions.
type Listing struct {
	Begun, Ended time.Duration
	Sessions     map[string]lockapi.SessionState
}

// watcher lists the sessions repeatedly. It uses at most a tenth of the time
// for that, because a listing of thousands is expensive.
type watcher struct {
	list  func(context.Context) iter.Seq2[lockapi.SessionState, error]
	begun time.Time
	but   []string // omitted sessions

	mu sync.Mutex
	// ends has, for each session, until when it certainly lives, from listings
	// before the change; latest is the last listing.
	ends   map[string]time.Duration
	latest Listing
	frozen time.Duration // when the change was about to be made; 0 before
}

const rest = 200 * time.Millisecond

// look lists the sessions once. The time left was true at some instant of the
// listing, so it counts from its beginning.
func (w *watcher) look(ctx context.Context) error {
	s := Listing{Begun: time.Since(w.begun), Sessions: make(map[string]lockapi.SessionState)}
	for one, err := range w.list(ctx) {
		if err != nil {
			return err
		}
		if !slices.Contains(w.but, one.ID) {
			s.Sessions[one.ID] = one
		}
	}
	s.Ended = time.Since(w.begun)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen > 0 && s.Begun < w.frozen {
		return nil // it may be from before or after the change
	}
	if w.latest = s; w.frozen == 0 {
		maps.DeleteFunc(w.ends, func(id string, _ time.Duration) bool { _, lives := s.Sessions[id]; return !lives })
		for id, one := range s.Sessions {
			w.ends[id] = max(w.ends[id], s.Begun+leftOf(one))
		}
	}
	return nil
}

// freeze ends the observation before the change, and returns the ends of the
// sessions and the last listing.
func (w *watcher) freeze() (map[string]time.Duration, Listing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = time.Since(w.begun)
	return w.ends, w.latest
}

func (w *watcher) last() Listing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		_ = w.look(ctx) // there may be no master at that moment
		_ = ask.Sleep(ctx, max(rest, 9*time.Since(begun)))
	}
}
