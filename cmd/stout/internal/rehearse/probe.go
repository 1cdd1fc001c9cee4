package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Attempt is one call that was made once and not again, whatever came of it.
type Attempt struct {
	Begun, Ended time.Duration
	Failed       string // a code, or why there was no answer; empty where it did its work
}

// Bounds of the prober.
const (
	every       = 20 * time.Millisecond // between two attempts of a kind
	patience    = 2 * time.Second       // of an attempt
	maxInFlight = 256
)

// prober calls the replicas in turn at a steady rate, whether or not they answer:
// a read of a lock, and a shared grant of it, which is given back at once. Unlike
// the SDK it tries nothing again, so that it sees all the time without service.
type prober struct {
	urls    []string
	http    http.RoundTripper                     // which follows nobody elsewhere
	token   func(context.Context) (string, error) // nil for none
	agent   string
	session string
	path    string
	begun   time.Time

	mu            sync.Mutex
	reads, writes []Attempt
	skipped       int
}

// run makes attempts until ctx ends, and returns when the last one has ended.
func (p *prober) run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	room := make(chan struct{}, maxInFlight)
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(room)+2 > maxInFlight {
			p.mu.Lock()
			p.skipped++
			p.mu.Unlock()
			continue
		}
		base := p.urls[n%len(p.urls)]
		for _, attempt := range []func(context.Context, string, int) error{p.read, p.write} {
			room <- struct{}{}
			all.Go(func() {
				_ = attempt(ctx, base, n) // it is noted
				<-room
			})
		}
	}
}

// note keeps what came of an attempt. One that was cut off because all is over
// says nothing.
func (p *prober) note(ctx context.Context, to *[]Attempt, begun time.Duration, err error) {
	a := Attempt{Begun: begun, Ended: time.Since(p.begun)}
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		a.Failed = why(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, a)
}

func why(err error) string {
	if code, ok := errors.AsType[*lockapi.Error](err); ok {
		return string(code.Code)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer"
	}
	return "no connection"
}

func (p *prober) read(ctx context.Context, base string, _ int) error {
	begun := time.Since(p.begun)
	err := p.call(ctx, http.MethodGet, base+lockapi.RouteLocks+p.path, nil, nil)
	p.note(ctx, &p.reads, begun, err)
	return err
}

// write takes a grant and gives it back. What it could not give back the end of
// the session does.
func (p *prober) write(ctx context.Context, base string, n int) error {
	req := lockapi.NewLockRequest(p.session)
	req.Mode, req.Handle = lockapi.Shared, strconv.Itoa(n)
	var got lockapi.Grant
	begun := time.Since(p.begun)
	err := p.call(ctx, http.MethodPut, base+lockapi.RouteLocks+p.path, req, &got)
	p.note(ctx, &p.writes, begun, err)
	if err != nil {
		return err
	}
	query := url.Values{"session": {p.session}, "handle": {req.Handle}, "token": {strconv.FormatUint(got.Token, 10)}}
	return p.call(ctx, http.MethodDelete, base+lockapi.RouteLocks+p.path+"?"+query.Encode(), nil, nil)
}

// call makes one attempt of a call.
func (p *prober) call(ctx context.Context, method, at string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, at, &body)
	if err != nil {
		return err
	}
	req.GetBody = nil // or the library would try again by itself
	req.Header.Set("User-Agent", p.agent)
	if p.token != nil {
		token, err := p.token(ctx)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := p.http.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		refused := new(lockapi.Error)
		if json.Unmarshal(answer, refused) != nil || refused.Code == "" {
			return fmt.Errorf("answered %s", resp.Status)
		}
		return refused
	case out != nil:
		return json.Unmarshal(answer, out)
	}
	return nil
}

// attempts are those that have ended by now.
func (p *prober) attempts() (reads, writes []Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reads), slices.Clone(p.writes)
}
