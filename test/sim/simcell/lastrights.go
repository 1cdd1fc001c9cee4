package simcell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// recheckedWithin is how long a healthy cell may take to check waiting calls
// again.
const recheckedWithin = 10 * time.Second

// conclude revokes rights of waiting callers after the faults, and checks that
// the waits end.
func (g *operator) conclude() {
	if g == nil {
		return
	}
	w := g.w
	w.within(servedWithin, "the operator has finished", func() bool { return g.over })
	if w.failed() {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	const path = "/acl/a/end"
	holder, keeper, waiter := g.guests[0], g.guests[1], g.guests[2]
	lock := []string{"user:g1", "user:g2", "user:g3"}
	g.insist(ctx, http.MethodPut, lockapi.RouteRules+path, lockapi.AccessLists{Read: append(lock, "group:crew"), Lock: lock}, nil)
	sessions := map[string]string{} // by the name of a guest
	for _, one := range g.guests {
		q := lockapi.NewSessionRequest()
		q.TTLMS = 60_000
		var got lockapi.Session
		one.insists(ctx, http.MethodPost, lockapi.RouteSessions, q, &got)
		sessions[one.name] = got.ID
	}
	ask := func(one *guest, q lockapi.LockRequest) error {
		q.Session, q.Mode, q.Handle = sessions[one.name], lockapi.Exclusive, "end"
		return one.insists(ctx, http.MethodPut, lockapi.RouteLocks+path, q, &lockapi.Grant{})
	}
	if err := errors.Join(ask(holder, lockapi.LockRequest{}), ask(keeper, lockapi.LockRequest{Queue: true})); err != nil {
		w.fail("a guest that may lock %s got %v", path, err)
	}
	called, watched := make(chan error, 1), make(chan error, 1)
	go func() { called <- ask(waiter, lockapi.LockRequest{WaitMS: lockapi.MaxWaitMS}) }()
	go func() { watched <- keeper.watchesToTheEnd(ctx) }()
	w.within(recheckedWithin, "two sessions wait", func() bool { l, _ := w.oracle.latest().Lock(path); return l.Waiters == 2 })
	w.until(time.Second)

	g.insist(ctx, http.MethodPut, lockapi.RouteRules+path, lockapi.AccessLists{Lock: lock[:1]}, nil)
	t := w.oracle.permits.latest().token(sumOf(keeper.secrets[len(keeper.secrets)-1]))
	for !w.isOver() && g.call(ctx, http.MethodDelete, lockapi.RouteTokens+"/"+t.ID, nil, nil) != nil {
		g.op.wait(ctx, 100*time.Millisecond)
	}
	var told, ended error
	w.within(recheckedWithin, "waiting calls are checked again", func() bool {
		select {
		case told = <-called:
		case ended = <-watched:
		default:
		}
		l, _ := w.oracle.latest().Lock(path)
		return told != nil && ended != nil && l.Waiters == 0
	})
	if !w.failed() && !isForbidden(told) {
		w.fail("a guest waits for %s without the right to it, and got %v", path, told)
	}
	for _, one := range []*guest{holder, waiter} {
		one.insists(ctx, http.MethodDelete, lockapi.RouteSessions+"/"+sessions[one.name], nil, nil)
	}
	g.insist(ctx, http.MethodDelete, lockapi.RouteSessions+"/"+sessions[keeper.name], nil, nil)
}

// insists makes a call with the valid token until it gets a permanent answer.
func (g *guest) insists(ctx context.Context, method, route string, in, out any) error {
	for {
		m := message{method: method, route: route, in: in, out: out, header: http.Header{}}
		bear(m.header, g.secrets[len(g.secrets)-1])
		err := g.send(ctx, lockapi.MaxWaitMS*time.Millisecond, g.anyone(), m)
		over := err != nil && (isUnknown(err) || errors.Is(err, lockapi.CodeNoMaster) || errors.Is(err, lockapi.CodeNotMaster))
		if !over || ctx.Err() != nil || g.w.isOver() {
			return err
		}
		g.wait(ctx, 100*time.Millisecond)
	}
}

// watchesToTheEnd watches with the valid token until that is revoked.
func (g *guest) watchesToTheEnd(ctx context.Context) error {
	secret := g.secrets[len(g.secrets)-1]
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, err := range g.newClient(ctx, secret).Watch(ctx, g.w.oracle.reportedRevision()) {
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the watch has ended: %w", ctx.Err())
}

// newClient returns a client of the SDK with a token.
func (g *guest) newClient(ctx context.Context, secret string) *client.Client {
	var urls []string
	for _, m := range g.w.machines {
		urls = append(urls, "http://"+m.id)
	}
	c, err := client.Config{URLs: urls, Transport: g.w.endpoint(g.name, ctx), Clock: g.clock.read,
		Token: func(context.Context) (string, error) { return secret, nil }}.New()
	if err != nil {
		panic(err)
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c
}
