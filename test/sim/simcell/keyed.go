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

// These are a user's actions on files by bare HTTP.

// repeats sends one keyed write repeatedly, to any replica, and then another
// one under its key.
func (u *user) repeats(ctx context.Context, s *client.Session) {
	w, floor := u.newWrite(s.ID(), u.anyFile()), u.w.oracle.floor()
	m := message{method: http.MethodPut, route: lockapi.RouteFiles + w.paths[0] + "?session=" + s.ID(), key: "key-" + w.content}
	if known := u.known[w.paths[0]]; known != 0 && u.rng.IntN(2) == 0 {
		w.when[w.paths[0]] = known
		m.header = http.Header{"If-Match": {fmt.Sprintf("%q", fmt.Sprint(known))}}
	}
	m.raw = []byte(u.w.oracle.intends(w).content)
	for range u.rng.IntN(3) { // in parallel with the sequential ones
		go u.repeatsBeside(ctx, m, w, floor)
	}
	var first string // answer
	for range 3 + u.rng.IntN(3) {
		var stat lockapi.FileStat
		m.out, m.reply = &stat, http.Header{}
		err := u.send(ctx, between(u.rng, 20*time.Millisecond, 6*time.Second), u.anyone(), m)
		if err != nil && isUnknown(err) || errors.Is(err, lockapi.CodeNoMaster) || errors.Is(err, lockapi.CodeNotMaster) {
			u.wait(ctx, 300*time.Millisecond)
			continue
		}
		if errors.Is(err, lockapi.CodeSessionNotFound) {
			u.w.oracle.lost(u.name, s.ID())
			return
		}
		u.recordWrite(floor, w, err, &stat)
		answer := fmt.Sprint(stat, err)
		if first == "" {
			first = answer
		} else if first != answer || m.reply.Get(lockapi.HeaderReplayed) != "true" {
			u.w.fail("%s got %s and then %s (replayed: %q) under the key %s", u.name, first, answer, m.reply.Get(lockapi.HeaderReplayed), m.key)
		}
	}
	if first != "" && u.rng.IntN(2) == 0 {
		u.abuses(ctx, m, s)
	}
}

// remembers sends a keyed write, then many others at once, and then the first
// again. As long as they are no more than a session remembers, the answer is
// the same.
func (u *user) remembers(ctx context.Context, s *client.Session) {
	w, floor := u.newWrite(s.ID(), u.anyFile()), u.w.oracle.floor()
	first := message{method: http.MethodPut, route: lockapi.RouteFiles + w.paths[0] + "?session=" + s.ID(), key: "first-" + w.content}
	first.raw = []byte(u.w.oracle.intends(w).content)
	var stat lockapi.FileStat
	first.out = &stat
	err := u.send(ctx, 6*time.Second, u.anyone(), first)
	u.recordWrite(floor, w, err, &stat)
	if err != nil {
		return
	}
	many, at := 1+u.rng.IntN(40), u.anyone()
	over := make(chan struct{}, many)
	for range many {
		go func() {
			u.sendsKeyed(ctx, at, s.ID())
			over <- struct{}{}
		}()
	}
	for range many {
		<-over
	}
	var again lockapi.FileStat
	first.out, first.reply = &again, http.Header{}
	err = u.send(ctx, 6*time.Second, u.anyone(), first)
	if err == nil && (again != stat || first.reply.Get(lockapi.HeaderReplayed) != "true") {
		u.w.fail("%s got %v and, after %d other writes, %v (replayed: %q) under the key %s", u.name, stat, many, again, first.reply.Get(lockapi.HeaderReplayed), first.key)
	}
}

// repeatsBeside sends a keyed write once.
func (u *user) repeatsBeside(ctx context.Context, m message, w *write, floor uint64) {
	u.wait(ctx, 50*time.Millisecond)
	var stat lockapi.FileStat
	m.out = &stat
	u.recordWrite(floor, w, u.send(ctx, 6*time.Second, u.anyone(), m), &stat)
}

// abuses sends another write under the key of an answered one. It never
// happens.
func (u *user) abuses(ctx context.Context, m message, s *client.Session) {
	w := u.newWrite(s.ID(), u.anyFile())
	w.refused = "nothing; another write has its key"
	m.route, m.raw = lockapi.RouteFiles+w.paths[0]+"?session="+s.ID(), []byte(u.w.oracle.intends(w).content)
	err := u.send(ctx, 6*time.Second, u.anyone(), m)
	if u.w.oracle.look(); err == nil {
		u.w.fail("%s got the answer that its write %s happened under the key %s of another one", u.name, w.content, m.key)
	}
	if errors.Is(err, lockapi.CodeConflict) {
		u.w.stats.check("refused key of another call")
	}
}

// acquiresAndWrites takes a lock and writes a file in one transaction.
func (u *user) acquiresAndWrites(ctx context.Context, s *client.Session) {
	l := wants[u.rng.IntN(2)]
	p, w, floor := u.newPair(s.ID(), l.path), u.newWrite(s.ID(), u.anyFile()), u.w.oracle.floor()
	content := u.w.oracle.intends(w).content
	put := lockapi.Operation{Put: &lockapi.WriteOperation{Path: w.paths[0], Content: &content}}
	acquire := lockapi.Operation{Acquire: &lockapi.AcquireOperation{Path: l.path, Handle: p.handle, Mode: l.mode}}
	in := lockapi.Transaction{Session: s.ID(), Then: []lockapi.Operation{put, acquire}}
	var out lockapi.TransactionResult
	err := u.send(ctx, 8*time.Second, u.anyone(), u.message(http.MethodPost, lockapi.RouteTransactions, in, &out))
	switch e := refusal(err); {
	case err == nil:
		token := out.Results[1].Grant.Token
		u.recordWrite(floor, w, nil, &out.Results[0].File.FileStat)
		u.w.oracle.acquired(u.name, floor, p, token)
		if at := u.w.oracle.tokens[token].index; at != w.index {
			u.w.fail("%s wrote and locked in one transaction, but entries %d and %d did it", u.name, w.index, at)
		}
		u.works(ctx)
		u.free(ctx, p, token)
	case e != nil && e.Code == lockapi.CodePrecondition:
		u.w.oracle.obstructed(u.name, floor, &lockapi.LockRequest{Mode: l.mode}, err.Error(), l.path)
		u.w.oracle.notWritten(w, err)
		u.w.oracle.hadNoEffect(u.name, p, err.Error())
	case e != nil && (e.Code == lockapi.CodeNoMaster || e.Code == lockapi.CodeNotMaster):
		u.w.oracle.notWritten(w, err)
		u.w.oracle.hadNoEffect(u.name, p, err.Error())
	case e != nil && e.Code == lockapi.CodeSessionNotFound:
		u.w.oracle.lost(u.name, s.ID())
	default:
		u.free(ctx, p, 0)
	}
}
