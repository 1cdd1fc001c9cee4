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

// Attempt is a call that was made once, whatever came of it.
type Attempt struct {
	Begun, Ended time.Duration
	Failed       string // a code, or why there was no answer; empty if it did its work
}

// Bounds of the prober.
const (
	every       = 20 * time.Millisecond // between two attempts of a kind
	patience    = 2 * time.Second       // of an attempt
	maxInFlight = 256
)

// prober calls the replicas in turn at a steady rate, whether or not they answer: it
// reads a lock, and takes a shared grant of it, which it gives back at once. Unlike the
// client it repeats nothing, so that it sees all the time without service.
type prober struct {
	ask           ask.Asker
	urls          []string
	session, path string
	begun         time.Time

	mu            sync.Mutex
	reads, writes []Attempt
}

// run makes attempts until ctx ends, and returns when the last one has ended. With too
// many in flight it leaves some out.
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
	p.note(ctx, &p.reads, func(ctx context.Context) error {
		_, err := p.ask.Call(ctx, http.MethodGet, at, nil, nil)
		return err
	})
}

// write takes a grant and gives it back. If that fails, the end of the session does it.
func (p *prober) write(ctx context.Context, at, handle string) {
	req := lockapi.NewLockRequest(p.session)
	req.Mode, req.Handle = lockapi.Shared, handle
	var got lockapi.Grant
	p.note(ctx, &p.writes, func(ctx context.Context) error {
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

// note makes a call and records what came of it, unless ctx ended meanwhile.
func (p *prober) note(ctx context.Context, to *[]Attempt, call func(context.Context) error) {
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

// attempts are those that have ended by now.
func (p *prober) attempts() (reads, writes []Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reads), slices.Clone(p.writes)
}

// Service is what was seen of one kind of calls.
type Service struct {
	Attempts int            `json:"attempts"`
	Failed   int            `json:"failed"`
	By       map[string]int `json:"failed_by,omitempty"` // code, or why there was no answer
	// GapMS is the longest time without an attempt that did its work, which began
	// at FromMS after the change; UsualMS is that before the change. LaterMS is that
	// which began when the new office was seen already: the change is not its cause.
	GapMS   float64 `json:"longest_gap_ms"`
	FromMS  float64 `json:"gap_from_ms"`
	UsualMS float64 `json:"usual_gap_ms"`
	LaterMS float64 `json:"later_gap_ms"`
	// Back is when the gap was over.
	Back time.Duration `json:"-"`
}

// ServiceOf judges the attempts until end, with a change and, later, the first sight of
// the new office before that. A gap is from one that did its work to the next one, by
// when they ended, or to the end.
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
