package simcell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state/access"
)

// guest is a program with changing rights. It makes bare calls, each sent once.
type guest struct {
	*user
	g       *operator
	secrets []string        // of its tokens; all but the last have ended, or will soon
	passing string          // of a token that ends by itself
	session string          // its own; empty if it has none
	sent    []time.Duration // when its calls without an answer began
	asOf    uint64          // the latest reported entry when its last answered call began
	watcher watcher
}

// visits is the guest's work until the faults are over.
func (g *guest) visits(ctx context.Context) {
	until := time.Duration(0)
	for !g.w.faultsOver && !g.w.isOver() {
		if g.w.now() > until {
			g.session = g.opens(ctx)
			until = g.w.now() + 3*time.Second
		}
		switch g.rng.IntN(16) {
		case 0, 1:
			g.puts(ctx)
		case 2:
			g.names(ctx, pick(g.rng, namePrefixes...))
		case 3:
			g.drops(ctx)
		case 4, 5:
			g.gets(ctx)
		case 6:
			g.lists(ctx)
		case 7, 8, 9:
			g.acquires(ctx)
		case 10:
			g.sees(ctx)
		case 11, 12:
			g.asksEvents(ctx)
		case 13:
			g.rules(ctx)
		case 14:
			g.transacts(ctx)
		case 15:
			g.meddles(ctx)
		}
		if g.w.profile.quotas {
			g.checksUse()
		}
		g.wait(ctx, pick(g.rng, 10*time.Millisecond, 200*time.Millisecond, g.w.profile.think))
	}
}

// newCall returns a call that is about to be sent with one of the guest's
// credentials, mostly the valid one.
func (g *guest) newCall(m message, needs ...need) (*guestCall, message) {
	p := &guestCall{who: g.name, floor: g.w.oracle.floor(), began: time.Now().UnixNano(), needs: needs}
	secret := g.secrets[len(g.secrets)-1]
	switch n := g.rng.IntN(12); {
	case n == 0:
		secret = g.secrets[g.rng.IntN(len(g.secrets))]
	case n == 1:
		secret = ""
	case n < 4 && g.passing != "":
		secret = g.passing
	}
	if m.header == nil {
		m.header = http.Header{}
	}
	if secret != "" {
		p.sum = sumOf(secret)
		bear(m.header, secret)
	}
	return p, m
}

// path returns a path for the next action.
func (g *guest) path() string { return aclTree[g.rng.IntN(len(aclTree))] }

// anySession returns the session for the next action: its own, or another
// guest's.
func (g *guest) anySession() string {
	if g.rng.IntN(5) == 0 {
		return g.g.guests[g.rng.IntN(len(g.g.guests))].session
	}
	return g.session
}

// opens opens a session.
func (g *guest) opens(ctx context.Context) string {
	q := lockapi.NewSessionRequest()
	q.TTLMS = 4000
	var got lockapi.Session
	p, m := g.newCall(g.message(http.MethodPost, lockapi.RouteSessions, q, &got))
	p.known = true
	if g.rng.IntN(2) == 0 { // guests use the same keys
		m.key = fmt.Sprint("visit-", int(g.w.now()/(3*time.Second)))
	}
	err := g.send(ctx, 3*time.Second, g.anyone(), m)
	if g.came(p, err, "an opened session") != nil {
		return ""
	}
	g.w.oracle.openedFor(p, got.ID)
	return got.ID
}

// came records the answer to a call.
func (g *guest) came(p *guestCall, err error, what string) error {
	if err == nil {
		g.w.oracle.allowed(p, what)
	}
	g.w.oracle.forbidden(p, err)
	return err
}

// puts writes a file.
func (g *guest) puts(ctx context.Context) {
	path := g.path()
	w, session := g.newWrite("", path), ""
	route := lockapi.RouteFiles + path
	if session = g.anySession(); session != "" && g.rng.IntN(2) == 0 {
		w.session = session
		route += "?session=" + session
	}
	var stat lockapi.FileStat
	p, m := g.newCall(g.message(http.MethodPut, route, nil, &stat), need{access.Write, path})
	g.uses(p, w.session)
	w.guestCall = p
	if known := g.known[path]; g.rng.IntN(3) == 0 {
		w.when[path] = known
		m.header.Set("If-Match", fmt.Sprintf("%q", fmt.Sprint(known)))
		if known == 0 {
			m.header.Del("If-Match")
			m.header.Set("If-None-Match", "*")
		}
	}
	m.raw = []byte(g.w.oracle.intends(w).content)
	err := g.send(ctx, 6*time.Second, g.anyone(), m)
	g.wrote(p, w, err, &stat)
}

// wrote records the answer to a write.
func (g *guest) wrote(p *guestCall, w *write, err error, stat *lockapi.FileStat) {
	if e := refusal(err); isForbidden(err) {
		g.w.oracle.notWritten(w, err)
	} else if e != nil && e.Current != nil {
		g.w.oracle.shown(p, e.Current.Path)
	} else if e != nil && e.Code == lockapi.CodePrecondition {
		g.w.oracle.notWritten(w, err)
		delete(g.known, w.paths[0])
		return // the answer does not show the obstacle
	}
	_ = g.came(p, err, "a written file")
	g.recordWrite(p.floor, w, err, stat)
	g.noEffect(w, err)
}

// drops deletes a file.
func (g *guest) drops(ctx context.Context) {
	path := g.path()
	var got lockapi.FileDeleted
	p, m := g.newCall(g.message(http.MethodDelete, lockapi.RouteFiles+path, nil, &got), need{access.Write, path})
	g.w.oracle.revisions.asked[path]++
	t := g.w.oracle.permits
	t.deletions[path] = append(t.deletions[path], p)
	err := g.came(p, g.send(ctx, 6*time.Second, g.anyone(), m), "a deleted file")
	if err == nil {
		g.w.oracle.deletedFile(g.name, p.floor, path, got.Revision)
	}
	if isForbidden(err) {
		g.w.oracle.revisions.asked[path]--
		for i, one := range t.deletions[path] {
			if one == p {
				t.deletions[path] = append(t.deletions[path][:i:i], t.deletions[path][i+1:]...)
				break
			}
		}
	}
}

// gets reads a file, sometimes from one replica's own state.
func (g *guest) gets(ctx context.Context) {
	path := g.path()
	query, stale := "?as=json", g.rng.IntN(3) == 0
	if stale {
		query += "&consistency=stale"
	}
	var got lockapi.File
	p, m := g.newCall(g.message(http.MethodGet, lockapi.RouteFiles+path+query, nil, &got), need{access.Read, path})
	m.reply = http.Header{}
	err := g.send(ctx, 6*time.Second, g.anyone(), m)
	if stale {
		p.floor = 0
	}
	switch at := revisionIn(m.reply); {
	case err == nil:
		g.w.oracle.fileRead(g.name, p.floor, at, path, &got.FileStat, []byte(*got.Content))
		g.w.oracle.permittedAt(p, at, "the content of "+path)
		g.known[path] = got.Revision
	case errors.Is(err, lockapi.CodeNotFound):
		g.w.oracle.fileRead(g.name, p.floor, at, path, nil, nil)
		g.w.oracle.permittedAt(p, at, "the absence of "+path)
	default:
		g.w.oracle.forbidden(p, err)
	}
}

// lists lists files.
func (g *guest) lists(ctx context.Context) {
	prefix := pick(g.rng, aclDir, "/acl/a", "/acl/a/", "")
	route := lockapi.RouteFiles + "?limit=1000&prefix=" + prefix
	stale := g.rng.IntN(3) == 0
	if stale {
		route += "&consistency=stale"
	}
	var got lockapi.FileList
	p, m := g.newCall(g.message(http.MethodGet, route, nil, &got))
	p.looks, p.lists = true, prefix
	m.reply = http.Header{}
	err := g.send(ctx, 6*time.Second, g.anyone(), m)
	if stale {
		p.floor = 0
	}
	if err == nil {
		g.w.oracle.listed(p, revisionIn(m.reply), prefix, &got)
	}
	g.w.oracle.forbidden(p, err)
}

// acquires requests a lock: at once, after a wait, or with a kept place.
func (g *guest) acquires(ctx context.Context) {
	session, path := g.anySession(), g.path()
	if session == "" {
		return
	}
	at := g.newPair(session, path)
	q := lockapi.LockRequest{Session: session, Handle: at.handle, Mode: pick(g.rng, lockapi.Exclusive, lockapi.Exclusive, lockapi.Shared), Queue: g.rng.IntN(2) == 0}
	if g.rng.IntN(3) > 0 {
		q.WaitMS = between(g.rng, time.Millisecond, 4*time.Second).Milliseconds()
	}
	for first := true; ; first = false {
		var got lockapi.Grant
		p, m := g.newCall(g.message(http.MethodPut, lockapi.RouteLocks+path, q, &got), need{access.Lock, path})
		g.uses(p, session)
		t := g.w.oracle.permits
		t.acquires[at] = append(t.acquires[at], p)
		err := g.send(ctx, 8*time.Second, g.anyone(), m)
		g.w.oracle.forbidden(p, err)
		switch e := refusal(err); {
		case err == nil && got.State == lockapi.StateHeld:
			g.w.oracle.allowed(p, "a held lock", t.acquires[at]...)
			g.w.oracle.acquired(g.name, p.floor, at, got.Token)
			g.wait(ctx, pick(g.rng, 50*time.Millisecond, 2*time.Second))
			g.gives(ctx, at)
			return
		case err == nil && first && g.rng.IntN(2) == 0:
			g.w.oracle.allowed(p, "a place in a queue")
			g.wait(ctx, 2*time.Second)
			q.WaitMS = 1000
			continue
		case err == nil:
			return // the place is left until the end of the session
		case first && (isForbidden(err) || e != nil && e.Code == lockapi.CodeTooMany):
			g.w.oracle.hadNoEffect(g.name, at, err.Error())
		case e != nil && len(e.Holders) > 0:
			g.w.oracle.shown(p, path)
		}
		return
	}
}

// gives releases a lock.
func (g *guest) gives(ctx context.Context, at pair) {
	route := fmt.Sprintf("%s%s?session=%s&handle=%s", lockapi.RouteLocks, at.path, at.session, at.handle)
	p, m := g.newCall(g.message(http.MethodDelete, route, nil, &lockapi.Released{}))
	asAdmin := *p
	asAdmin.needs = []need{{access.Admin, at.path}}
	g.uses(p, at.session)
	err := g.send(ctx, 6*time.Second, g.anyone(), m)
	g.w.oracle.forbidden(p, err)
	if err == nil && !g.w.oracle.permitted(&asAdmin, uint64(len(g.w.oracle.permits.by))) {
		g.w.oracle.allowed(p, "a released lock")
	}
}

// sees reads a lock, or all of them.
func (g *guest) sees(ctx context.Context) {
	if g.rng.IntN(2) == 0 {
		path := g.path()
		var got lockapi.Lock
		p, m := g.newCall(g.message(http.MethodGet, lockapi.RouteLocks+path, nil, &got), need{access.Read, path})
		if g.came(p, g.send(ctx, 6*time.Second, g.anyone(), m), "the state of a lock") == nil {
			g.w.oracle.read(g.name, p.floor, got)
		}
		return
	}
	var got lockapi.LockList
	p, m := g.newCall(g.message(http.MethodGet, lockapi.RouteLocks+"?limit=1000", nil, &got))
	p.looks = true
	if g.came(p, g.send(ctx, 6*time.Second, g.anyone(), m), "a list of locks") != nil {
		return
	}
	for i := range got.Locks {
		seen := *p
		seen.needs = []need{{access.Read, got.Locks[i].Path}}
		g.w.oracle.allowed(&seen, "lock "+got.Locks[i].Path)
		g.w.oracle.read(g.name, p.floor, got.Locks[i])
	}
}

// asksEvents asks one replica for events.
func (g *guest) asksEvents(ctx context.Context) {
	w := &g.watcher
	w.who, w.asked = g.name, asked{prefix: pick(g.rng, "", aclDir, "/acl/a/")}
	route := fmt.Sprintf("%s?after=%d&limit=%d&wait_ms=%d%s", lockapi.RouteEvents, w.after, 1+g.rng.IntN(30), g.rng.IntN(2)*g.rng.IntN(3000), w.asked.query())
	var got lockapi.EventList
	p, m := g.newCall(message{method: http.MethodGet, route: route, out: &got})
	p.looks, p.lists = true, w.asked.prefix
	p.floor = 0 // a replica's own log
	err := g.send(ctx, 10*time.Second, g.anyone(), m)
	g.w.oracle.forbidden(p, err)
	if e := refusal(err); e != nil && e.Code == lockapi.CodeCompacted {
		g.w.oracle.skipped(w, e.Compacted)
	}
	if err != nil {
		return
	}
	for i := range got.Events {
		g.w.oracle.eventReceived(p, w, &got.Events[i])
	}
	g.w.oracle.leftOut(p, w, got.Revision+1)
	w.after = max(w.after, got.Revision)
}

// looksOn watches a stream of events.
func (g *guest) looksOn(ctx context.Context) {
	w := &watcher{who: g.name + "'s watcher", asked: asked{prefix: aclDir}}
	for !g.w.faultsOver && !g.w.isOver() {
		secret := g.secrets[len(g.secrets)-1]
		p := &guestCall{who: w.who, sum: sumOf(secret), began: time.Now().UnixNano()}
		watching, stop := context.WithTimeout(ctx, between(g.rng, 100*time.Millisecond, 10*time.Second))
		for e, err := range g.newClient(watching, secret).Watch(watching, w.after, w.asked.filters()...) {
			switch {
			case err != nil:
				g.w.trace.note(w.who, "ends: %v", err)
			case e.Compacted != nil:
				g.w.oracle.skipped(w, *e.Compacted)
			default:
				g.w.oracle.eventReceived(p, w, &e.CellEvent)
			}
			if g.w.isOver() {
				break
			}
		}
		stop()
		g.wait(ctx, 500*time.Millisecond)
	}
}

// rules puts a rule with a unique entry.
func (g *guest) rules(ctx context.Context) {
	path := ruledPaths[g.rng.IntN(len(ruledPaths))]
	g.handles++
	mark := fmt.Sprintf("user:mark-%s-%d", g.name, g.handles)
	lists := lockapi.AccessLists{Read: []string{"group:crew", "user:g1"}, Lock: []string{"user:g2"}, Admin: []string{mark, "user:" + g.name}}
	p, m := g.newCall(g.message(http.MethodPut, lockapi.RouteRules+path, lists, &lockapi.AccessRule{}), need{access.Admin, path})
	t := g.w.oracle.permits
	t.marks[mark] = p
	err := g.came(p, g.send(ctx, 6*time.Second, g.anyone(), m), "a new rule")
	if isForbidden(err) {
		t.refused[mark] = err.Error()
	}
}

// transacts writes one file if it may read another.
func (g *guest) transacts(ctx context.Context) {
	path, other := g.path(), g.path()
	w := g.newWrite("", path)
	content := g.w.oracle.intends(w).content
	never := uint64(lockapi.MaxToken) // so that the else branch is taken
	in := lockapi.Transaction{
		If:   []lockapi.Condition{{File: other, Revision: &never}},
		Else: []lockapi.Operation{{Put: &lockapi.WriteOperation{Path: path, Content: &content}}},
	}
	var out lockapi.TransactionResult
	p, m := g.newCall(g.message(http.MethodPost, lockapi.RouteTransactions, in, &out), need{access.Read, other}, need{access.Write, path})
	w.guestCall = p
	err := g.came(p, g.send(ctx, 6*time.Second, g.anyone(), m), "a transaction")
	switch {
	case err == nil:
		g.recordWrite(p.floor, w, nil, &out.Results[0].File.FileStat)
	case isForbidden(err):
		g.w.oracle.notWritten(w, err)
	}
}

// meddles uses a session that may be another guest's.
func (g *guest) meddles(ctx context.Context) {
	session := g.anySession()
	if session == "" {
		return
	}
	route := lockapi.RouteSessions + "/" + session
	p, m := g.newCall(g.message(http.MethodPost, route+"/keepalive", lockapi.KeepaliveRequest{}, &lockapi.Keepalive{}))
	if g.rng.IntN(4) == 0 {
		p, m = g.newCall(g.message(http.MethodDelete, route, nil, nil))
	}
	g.uses(p, session)
	err := g.send(ctx, 4*time.Second, g.anyone(), m)
	if !errors.Is(err, lockapi.CodeSessionNotFound) {
		_ = g.came(p, err, "the use of session "+session)
	}
}
