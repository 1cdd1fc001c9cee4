package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestPausedMaster: a master that stood still for longer than its lease and a
// session's ttl goes on as if nothing had happened. It answers nothing that was
// true before, and extends nothing.
//
// The calls are put to it while it stands still, so that they are the first
// thing that it finds when it goes on.
func TestPausedMaster(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	old := ready(t, c)
	watchLeases(t, c, false)
	const path, ttl = "/paused", 2 * time.Second
	begun := time.Now()
	sleeper := open(t, old, ttl)
	before := acquire(t, old, path, ask(sleeper.ID, "h", 0))

	must(t, old.Pause())
	master := newMaster(t, c, old)
	heir := open(t, master, aWhile)
	after := acquire(t, master, path, ask(heir.ID, "h", aWhile))
	if lived := time.Since(begun); lived < ttl {
		t.Errorf("the lock of a session of %v changed hands after %v", ttl, lived)
	}
	if after.Token <= before.Token {
		t.Errorf("token %d after %d", after.Token, before.Token)
	}
	var calls []*pendingCall
	for range 5 {
		for _, forward := range []string{"", lockapi.ForwardNever} {
			calls = append(calls,
				putTo(t, old, forward, http.MethodGet, lockRoute(path), nil),
				putTo(t, old, forward, http.MethodGet, lockapi.RouteSequencers+"?value="+before.Sequencer, nil),
				putTo(t, old, forward, http.MethodGet, sessionRoute(sleeper.ID), nil),
				putTo(t, old, forward, http.MethodPut, lockRoute(path), ask(sleeper.ID, "h", 0)),
				putTo(t, old, forward, http.MethodPut, lockRoute(path), ask(heir.ID, "another", 0)),
				putTo(t, old, forward, http.MethodPost, sessionRoute(sleeper.ID)+"/keepalive", struct{}{}),
			)
		}
	}
	must(t, old.Continue())
	for _, p := range calls {
		p.check(t, before, after)
	}
	ready(t, c)
	wantHolder(t, read(t, old, path), after)
}

// pendingCall is a call whose answer is waited for in the background.
type pendingCall struct {
	name string
	got  chan pendingAnswer
}

type pendingAnswer struct {
	status int
	body   []byte
	err    error
}

// putTo makes a call that may have to wait for its replica.
func putTo(t *testing.T, r *cell.Replica, forward, method, target string, in any) *pendingCall {
	t.Helper()
	p := &pendingCall{name: fmt.Sprintf("%s %s, forward %q", method, target, forward), got: make(chan pendingAnswer, 1)}
	body, err := json.Marshal(in)
	must(t, err)
	if in == nil {
		body = nil
	}
	wrote := make(chan struct{})
	go func() {
		var a pendingAnswer
		a.status, a.body, a.err = send(bounded(t), r.URL+target, method, string(body), forward, wrote)
		p.got <- a
	}()
	select {
	case <-wrote: // it lies in the replica's socket now
	case <-bounded(t).Done():
		t.Fatalf("%s: the request does not go out", p.name)
	}
	return p
}

// check refuses every answer that was right only before the pause.
func (p *pendingCall) check(t *testing.T, before, after lockapi.Grant) {
	t.Helper()
	a := <-p.got
	if a.err != nil {
		t.Errorf("%s: %v", p.name, a.err)
		return
	}
	text := string(a.body)
	problem := lockapi.Error{}
	_ = json.Unmarshal(a.body, &problem) // it stays empty where the answer is none
	switch a.status {
	case http.StatusMisdirectedRequest, http.StatusServiceUnavailable, http.StatusNotFound:
		return
	case http.StatusLocked:
		if len(problem.Holders) == 1 && problem.Holders[0].Token == after.Token {
			return
		}
	case http.StatusOK:
		isRead := strings.Contains(text, `"holders"`) && strings.Contains(text, fmt.Sprintf(`"token":%d`, after.Token))
		isCheck := strings.Contains(text, `"valid":false`)
		if isRead || isCheck {
			return
		}
	}
	t.Errorf("%s: an answer from before the pause (then %d, now %d): %d %s", p.name, before.Token, after.Token, a.status, text)
}

// TestPausedFollowers: while the others stand still the master's lease runs
// out; when they go on, so does everything, and no session has ended meanwhile:
// the time without a lease is given back.
func TestPausedFollowers(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	master := ready(t, c)
	watchLeases(t, c, false)
	const path = "/others-paused"
	g := acquire(t, master, path, ask(open(t, master, 3*time.Second).ID, "", 0))
	for _, r := range c.Others(master) {
		must(t, r.Pause())
	}
	must(t, cell.Wait(bounded(t), "the master's lease is over", func(ctx context.Context) error {
		if isMaster(ctx, master) == nil {
			return errors.New("it holds a lease")
		}
		return nil
	}))
	_, err := request(bounded(t), master, http.MethodGet, lockRoute(path), &lockapi.Lock{})
	wantCode(t, "a read without a lease", err, lockapi.CodeNoMaster, lockapi.CodeNotMaster)
	for _, r := range c.Others(master) {
		must(t, r.Continue())
	}
	wantHolder(t, read(t, ready(t, c), path), g)
}
