package cell

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// httpClient opens a connection for each call, so that a replica that was
// killed, stopped or cut off leaves no broken connection for the next call.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Call is CallVia over a new connection.
func Call(ctx context.Context, method, base, pathAndQuery string, in, out any) (status int, err error) {
	return CallVia(ctx, httpClient, method, base, pathAndQuery, in, out)
}

// CallVia makes one call of the HTTP API of the replica at the base URL. A
// non-nil in is sent as JSON; see Send.
func CallVia(ctx context.Context, via *http.Client, method, base, pathAndQuery string, in, out any) (status int, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return 0, err
		}
	}
	reply, err := Send(ctx, via, method, base+pathAndQuery, nil, body, out)
	if reply == nil {
		return 0, err
	}
	return reply.StatusCode, err
}

// Send makes one call of the HTTP API. A non-nil out receives the reply. A
// problem document is returned as a *lockapi.Error.
func Send(ctx context.Context, via *http.Client, method, url string, header http.Header, body []byte, out any) (*http.Response, error) {
	reply, content, err := Exchange(ctx, via, method, url, header, body)
	switch {
	case err != nil:
		return reply, err
	case reply.StatusCode >= 300:
		problem := &lockapi.Error{}
		if json.Unmarshal(content, problem) != nil || problem.Code == "" {
			return reply, fmt.Errorf("%s %s: %s: %s", method, url, reply.Status, content)
		}
		return reply, problem
	case out == nil || len(content) == 0:
		return reply, nil
	}
	if err := json.Unmarshal(content, out); err != nil {
		return reply, fmt.Errorf("%s %s: reply %q: %w", method, url, content, err)
	}
	return reply, nil
}

// Exchange sends a request and reads the whole reply. If ctx has no deadline, it
// may take a Step.
func Exchange(ctx context.Context, via *http.Client, method, url string, header http.Header, body []byte) (*http.Response, []byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Step)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(req.Header, header)
	reply, err := cmp.Or(via, httpClient).Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer reply.Body.Close()
	content, err := io.ReadAll(reply.Body)
	return reply, content, err
}

// Pause waits for d, and reports whether ctx still runs after it.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Via returns the client for calls to the replica; each call opens a
// connection.
func (r *Replica) Via() *http.Client { return cmp.Or(r.via, httpClient) }

// Call is the function Call to this replica, with TLS if the replica uses it.
func (r *Replica) Call(ctx context.Context, method, pathAndQuery string, in, out any) (int, error) {
	return CallVia(ctx, r.Via(), method, r.URL, pathAndQuery, in, out)
}

// Cell returns the state of the cell in this replica's view.
func (r *Replica) Cell(ctx context.Context) (lockapi.Cell, error) {
	var c lockapi.Cell
	_, err := r.Call(ctx, http.MethodGet, lockapi.RouteCell, nil, &c)
	return c, err
}

// Insist calls the replicas in turn until the answer is final, as the contract
// allows a client to do. It returns the number of attempts. No attempt is
// abandoned before ctx ends, because an abandoned one could take effect later.
func Insist(ctx context.Context, replicas []*Replica, method, pathAndQuery string, in, out any) (attempts int, err error) {
	return Repeat(ctx, func(n int) error {
		_, err := replicas[n%len(replicas)].Call(ctx, method, pathAndQuery, in, out)
		return err
	})
}

// Repeat makes the attempts 0, 1, … of a call until one settles it. Three
// results do not: no answer, no master, and an unknown outcome.
func Repeat(ctx context.Context, attempt func(n int) error) (attempts int, err error) {
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for {
		err := attempt(attempts)
		attempts++
		if refused := new(lockapi.Error); err == nil ||
			errors.As(err, &refused) && refused.Code != lockapi.CodeNoMaster && refused.Code != lockapi.CodeOutcomeUnknown {
			return attempts, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return attempts, err
		}
	}
}

// Wait calls try until it returns nil or ctx ends; the error then includes
// try's last error. It tries every 20 ms during the first seconds, and more
// rarely later. A try gets two seconds, and twice as long after each one that
// used them up, because calls can be slow on a busy machine.
func Wait(ctx context.Context, what string, try func(context.Context) error) error {
	const (
		soon   = 20 * time.Millisecond
		rarest = 500 * time.Millisecond
		calm   = 5 * time.Second // after it, the pause is a fiftieth of the time waited
	)
	began, each := time.Now(), 2*time.Second
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		tryCtx, cancel := context.WithTimeout(ctx, each)
		err := try(tryCtx)
		if tryCtx.Err() != nil {
			each *= 2
		}
		cancel()
		if err == nil {
			return nil
		}
		next := soon
		if waited := time.Since(began); waited > calm {
			next = min(waited/50, rarest)
		}
		pause.Reset(next)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; last error: %w", what, context.Cause(ctx), err)
		}
	}
}
