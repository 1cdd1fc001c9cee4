package rehearse

import (
	"context"
	"errors"
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

// attempts returns the attempts that have ended.
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
