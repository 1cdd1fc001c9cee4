package client

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// The internals that the external tests use.

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

var (
	Sleep  = sleep
	IsGone = isGone
)

// Prefix is what the handles of a session's locks begin with.
func (s *Session) Prefix() string { return s.locks.prefix }

// AskAgain has the session's calls for locks made again.
func (s *Session) AskAgain() { s.locks.askAgain() }

// Acquisitions is how many locks the session has, waits for or looks for.
func (s *Session) Acquisitions() int {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	return len(s.locks.byHandle)
}

// Mutexes are those of the hold's session.
func (h *Held) Mutexes() []*sync.Mutex {
	s := h.a.s
	return []*sync.Mutex{&s.lease.mu, &s.locks.mu, &s.keeper.poll.mu, &s.reconciler.mu}
}

// Session is the hold's session.
func (h *Held) Session() *Session { return h.a.s }

// RoundTripTo reads a lock at one replica: over a connection of the client's own
// where direct is set, else by its transport.
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

// Sessions is how many sessions the limiter counts.
func (c *Client) Sessions() int { return c.limiter.sessions }
