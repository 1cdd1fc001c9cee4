package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestPausedMaster: a master that was stopped for longer than its lease and a
// session's ttl continues as before. It must not give an answer that was true
// only before the pause, and must extend no session.
//
// The calls are sent while it is stopped, on connections that it accepted
// before. They are therefore the first input that it finds when it continues.
func TestPausedMaster(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	old := c.Ready(t)
	watchLeases(t, c, false)
	const path, ttl = "/paused", 2 * time.Second
	begun := time.Now()
	sleeper := open(t, old, ttl)
	before := acquire(t, old, path, ask(sleeper.ID, "h", 0))

	var calls []*pendingCall
	for range 10 {
		for _, forward := range []string{"", lockapi.ForwardNever} {
			for kind := range callKinds {
				calls = append(calls, connect(t, old, kind, forward))
			}
		}
	}

	must(t, old.Pause())
	master := newMaster(t, c, old)
	next := open(t, master, aWhile)
	after := acquire(t, master, path, ask(next.ID, "h", aWhile))
	if lived := time.Since(begun); lived < ttl {
		t.Errorf("the lock of a session of %v changed hands after %v", ttl, lived)
	}
	if after.Token <= before.Token {
		t.Errorf("token %d after %d", after.Token, before.Token)
	}
	for _, p := range calls {
		p.send(t, before, next)
	}
	must(t, old.Continue())
	for _, p := range calls {
		p.check(t, before, after)
	}
	c.Ready(t)
	wantHolder(t, read(t, old, path), after)
}

// callKinds are the calls to a paused master, about the grant that it knows and
// about the session of the next holder.
var callKinds = []func(before lockapi.Grant, next string) (method, target string, in any){
	func(g lockapi.Grant, _ string) (string, string, any) { return http.MethodGet, lockRoute(g.Path), nil },
	func(g lockapi.Grant, _ string) (string, string, any) {
		return http.MethodGet, lockapi.RouteSequencers + "?value=" + g.Sequencer, nil
	},
	func(g lockapi.Grant, _ string) (string, string, any) {
		return http.MethodGet, sessionRoute(g.Session), nil
	},
	func(g lockapi.Grant, _ string) (string, string, any) {
		return http.MethodPut, lockRoute(g.Path), ask(g.Session, g.Handle, 0)
	},
	func(g lockapi.Grant, next string) (string, string, any) {
		return http.MethodPut, lockRoute(g.Path), ask(next, "another", 0)
	},
	func(g lockapi.Grant, _ string) (string, string, any) {
		return http.MethodPost, sessionRoute(g.Session) + "/keepalive", struct{}{}
	},
}

// pendingCall is a call on a connection that the replica has already served.
type pendingCall struct {
	name    string
	kind    int
	forward string
	conn    net.Conn
	replies *bufio.Reader
}

// connect opens a connection and makes a first call on it.
func connect(t *testing.T, r *cell.Replica, kind int, forward string) *pendingCall {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "http://"))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(2*cell.Step)))
	p := &pendingCall{kind: kind, forward: forward, conn: conn, replies: bufio.NewReader(conn)}
	p.write(t, http.MethodGet, lockapi.RouteLive, "")
	status, body, err := p.read()
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s %v", lockapi.RouteLive, status, body, err)
	}
	return p
}

func (p *pendingCall) write(t *testing.T, method, target, body string) {
	t.Helper()
	header := ""
	if p.forward != "" {
		header = lockapi.HeaderForward + ": " + p.forward + "\r\n"
	}
	_, err := fmt.Fprintf(p.conn, "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", method, target, header, len(body), body)
	must(t, err)
}

func (p *pendingCall) read() (status int, body []byte, err error) {
	resp, err := http.ReadResponse(p.replies, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// send writes the call to the replica's socket.
func (p *pendingCall) send(t *testing.T, before lockapi.Grant, next lockapi.Session) {
	t.Helper()
	method, target, in := callKinds[p.kind](before, next.ID)
	p.name = fmt.Sprintf("%s %s, forward %q", method, target, p.forward)
	body := []byte{}
	if in != nil {
		var err error
		body, err = json.Marshal(in)
		must(t, err)
	}
	p.write(t, method, target, string(body))
}

// check rejects every answer that was right only before the pause.
func (p *pendingCall) check(t *testing.T, before, after lockapi.Grant) {
	t.Helper()
	status, body, err := p.read()
	if err != nil {
		t.Errorf("%s: %v", p.name, err)
		return
	}
	text := string(body)
	problem := lockapi.Error{}
	_ = json.Unmarshal(body, &problem) // stays empty if the answer is no problem document
	switch status {
	case http.StatusMisdirectedRequest, http.StatusServiceUnavailable, http.StatusNotFound:
		return
	case http.StatusTooManyRequests: // of the keepalives of one session; it grants nothing
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
	t.Errorf("%s: an answer from before the pause (then %d, now %d): %d %s", p.name, before.Token, after.Token, status, text)
}

// TestPausedFollowers: while the others are stopped, the master's lease runs
// out. When they continue, so does everything else. No session ends in between,
// not even one with a short ttl: the time without a lease is given back.
func TestPausedFollowers(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	master := c.Ready(t)
	watchLeases(t, c, false)
	const path, ttl = "/others-paused", 10 * time.Second
	g := acquire(t, master, path, ask(open(t, master, ttl).ID, "", 0))
	for _, r := range c.Others(master) {
		must(t, r.Pause())
	}
	must(t, cell.Wait(cell.Bounded(t), "the master's lease is over", func(ctx context.Context) error {
		if isMaster(ctx, master) == nil {
			return errors.New("it holds a lease")
		}
		return nil
	}))
	_, err := request(cell.Bounded(t), master, http.MethodGet, lockRoute(path), &lockapi.Lock{})
	wantCode(t, "a read without a lease", err, lockapi.CodeNoMaster, lockapi.CodeNotMaster)
	waitUntil(t, time.Now().Add(ttl))
	for _, r := range c.Others(master) {
		must(t, r.Continue())
	}
	wantHolder(t, read(t, c.Ready(t), path), g)
}
