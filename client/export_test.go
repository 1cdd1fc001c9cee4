package client

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Internals that the external tests use.

const (
	FirstLook   = firstLook
	HedgeAfter  = hedgeAfter
	LateAnswer  = lateAnswer
	LeastLook   = leastLook
	LongPoll    = longPoll
	LongestWait = longestWait
	LookupTime  = lookupTime
	LostTime    = lostTime
	MostAbsence = mostAbsence
	MostFound   = mostFound
	MostPause   = mostPause
	MostPenalty = mostPenalty
	ReleaseTime = releaseTime
	SettleTime  = settleTime
	WaitSlack   = waitSlack
	WakeEvery   = wakeEvery
	WindowSize  = windowSize
)

var Sleep = sleep

// Prefix returns the prefix of the handles of the session's locks.
func (s *Session) Prefix() string { return s.locks.prefix }

// AskAgain repeats the session's pending calls for locks.
func (s *Session) AskAgain() { s.locks.askAgain() }

// Acquisitions returns how many locks the session has, waits for or looks for.
func (s *Session) Acquisitions() int {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	return len(s.locks.byHandle)
}

// Mutexes returns the mutexes of the hold's session.
func (h *Held) Mutexes() []*sync.Mutex {
	s := h.a.s
	return []*sync.Mutex{&s.lease.mu, &s.locks.mu, &s.keeper.poll.mu, &s.reconciler.mu}
}

// Session returns the hold's session.
func (h *Held) Session() *Session { return h.a.s }

// RoundTripTo reads a lock at one replica: over one of the client's own
// connections if direct, otherwise through its transport.
func (c *Client) RoundTripTo(ctx context.Context, url string, direct bool) (int, error) {
	e, err := givenEndpoint(url, c.scheme)
	if err != nil {
		return 0, err
	}
	if !direct {
		e.addr = ""
	}
	a, err := c.calls.roundTrip(ctx, &route{to: e}, &call{method: http.MethodGet, path: lockapi.RouteLocks + "/a"}, time.Minute, new(bytes.Buffer))
	return a.StatusCode, err
}

// Sessions returns how many sessions the limiter counts.
func (c *Client) Sessions() int { return c.limiter.sessions }
