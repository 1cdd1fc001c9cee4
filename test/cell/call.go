package cell

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
// non-nil in is sent as JSON; a non-nil out receives the reply. A problem
// document is returned as a *lockapi.Error. If ctx has no deadline, the call
// may take a Step.
func CallVia(ctx context.Context, via *http.Client, method, base, pathAndQuery string, in, out any) (status int, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Step)
		defer cancel()
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+pathAndQuery, body)
	if err != nil {
		return 0, err
	}
	reply, err := via.Do(req)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	content, err := io.ReadAll(reply.Body)
	if err != nil {
		return reply.StatusCode, err
	}
	if strings.HasPrefix(reply.Header.Get("Content-Type"), "application/problem+json") {
		problem := &lockapi.Error{}
		if err := json.Unmarshal(content, problem); err != nil {
			return reply.StatusCode, fmt.Errorf("%s %s: problem document %q: %w", method, pathAndQuery, content, err)
		}
		return reply.StatusCode, problem
	}
	if reply.StatusCode >= 300 {
		return reply.StatusCode, fmt.Errorf("%s %s: %s: %s", method, pathAndQuery, reply.Status, content)
	}
	if out == nil || len(content) == 0 {
		return reply.StatusCode, nil
	}
	if err := json.Unmarshal(content, out); err != nil {
		return reply.StatusCode, fmt.Errorf("%s %s: reply %q: %w", method, pathAndQuery, content, err)
	}
	return reply.StatusCode, nil
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
