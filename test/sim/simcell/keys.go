package simcell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// In half of the runs users also come through the door for Consul's clients.
// Each call is sent once. Some keys are also locks and files of the others.

// keyPaths are the keys. The first two are locks, the first and the third are
// files of other actions.
var keyPaths = []string{"/one", "/two", lastKey}

// lastKey is the key that each user takes when the faults are over.
const lastKey = "/f/a"

// metadata returns how a user's session holds keys: whether their files end
// with it, and their lock-delay.
func (u *user) metadata() map[string]string {
	if !u.w.profile.keys {
		return nil
	}
	delay := time.Duration(0)
	if u.ranks.IntN(u.w.profile.delays) == 0 {
		delay = between(u.ranks, 100*time.Millisecond, 3*time.Second)
	}
	return map[string]string{
		lockapi.MetaKeyDelay:    delay.String(),
		lockapi.MetaKeyBehavior: pick(u.ranks, lockapi.KeysReleased, lockapi.KeysDeleted),
	}
}

// atDoor reports whether a user's request is one to the door.
func atDoor(q *http.Request) bool {
	return strings.HasPrefix(q.URL.Path, "/v1/kv/") || strings.HasPrefix(q.URL.Path, "/v1/session/") || q.URL.Path == "/v1/txn"
}

// keys performs one action through the door.
func (u *user) keys(ctx context.Context, s *client.Session) {
	path := keyPaths[u.ranks.IntN(len(keyPaths))]
	switch n := u.ranks.IntN(17); {
	case n < 8:
		u.locksKey(ctx, s.ID(), path)
	case n < 10:
		u.readsKey(ctx, path)
	case n < 12:
		u.writesKey(ctx, path)
	case n < 13:
		u.deletesKey(ctx, path)
	case n < 15:
		u.transactsKeys(ctx, s)
	case n < 16:
		u.endsSession(ctx, s.ID())
	case !u.renews:
		u.renews = true
		go u.usesSession(ctx)
	}
}

// locksKey acquires a key, works, writes under it, and releases it. One in four
// holds is left until the session's end.
func (u *user) locksKey(ctx context.Context, session, path string) {
	query, held := "?acquire="+session, false
	for range 1 + u.ranks.IntN(2) {
		w, floor := u.newWrite(session, path), u.w.oracle.floor()
		w.locks = path
		done, err := u.changesKey(ctx, path+query, w)
		switch {
		case err == nil && done:
			u.w.oracle.wroteKey(w)
			u.works(ctx)
			held = true
		case err == nil:
			u.w.oracle.obstructed(u.name, floor, &lockapi.LockRequest{Mode: lockapi.Exclusive}, "false", path)
			u.w.oracle.notWritten(w, errFalse)
			return
		default:
			u.pace(ctx)
		}
	}
	if u.ranks.IntN(4) == 0 && held && !u.w.quiet {
		return
	}
	w, floor := u.newWrite(session, path), u.w.oracle.floor()
	w.unlocks = path
	switch done, err := u.changesKey(ctx, path+"?release="+session, w); {
	case err == nil && done:
		u.w.oracle.wroteKey(w)
		if u.w.quiet && path == lastKey {
			u.served[path] = true
		}
	case err == nil:
		u.w.oracle.notHolder(u.name, floor, session, path)
		u.w.oracle.notWritten(w, errFalse)
	default:
		u.pace(ctx)
	}
}

// writesKey writes a key, in half of the cases if it has the revision that the
// user knows.
func (u *user) writesKey(ctx context.Context, path string) {
	w, floor, query := u.newWrite("", path), u.w.oracle.floor(), ""
	if u.ranks.IntN(2) == 0 {
		w.when[path] = u.known[path]
		query = fmt.Sprint("?cas=", u.known[path])
	}
	switch done, err := u.changesKey(ctx, path+query, w); {
	case err == nil && done:
		u.w.oracle.wroteKey(w)
		u.known[path] = w.done[path]
	case err == nil:
		u.w.oracle.otherIndex(w, floor)
		u.w.oracle.notWritten(w, errFalse)
		u.readsKey(ctx, path)
	default:
		u.pace(ctx)
	}
}

var errFalse = errors.New("false")

// changesKey writes a key by one call. The error means that there is no
// answer about the condition.
func (u *user) changesKey(ctx context.Context, at string, w *write) (done bool, err error) {
	content := u.w.oracle.intends(w).content
	status, body, _ := u.enters(ctx, http.MethodPut, "/v1/kv"+at, content)
	switch {
	case status == http.StatusOK:
		return body == "true", nil
	case strings.HasPrefix(body, "invalid session"):
		u.w.oracle.lost(u.name, w.session)
		u.w.oracle.notWritten(w, errors.New(body))
	case strings.HasPrefix(body, "No cluster leader"):
		u.w.oracle.notWritten(w, errors.New(body))
	}
	return false, errNoAnswer
}

var errNoAnswer = errors.New("the call may have had an effect")

// deletesKey deletes a key, whether or not it is locked.
func (u *user) deletesKey(ctx context.Context, path string) {
	floor := u.w.oracle.floor()
	u.w.oracle.revisions.asked[path]++
	if status, _, _ := u.enters(ctx, http.MethodDelete, "/v1/kv"+path, ""); status == http.StatusOK {
		u.w.stats.check("reported deletion of a key")
		u.w.oracle.absent(u.name, floor, path)
	}
}

// transactsKeys writes two keys, or acquires both, if the second one has the
// revision that the user knows. An earlier write is undone if it has not.
func (u *user) transactsKeys(ctx context.Context, s *client.Session) {
	a, b := keyPaths[u.ranks.IntN(2)], keyPaths[2]
	w, floor := u.newWrite("", a, b), u.w.oracle.floor()
	w.when[b] = u.known[b]
	content := []byte(u.w.oracle.intends(w).content)
	first := map[string]any{"Verb": lockapi.KeySet, "Key": a[1:], "Value": content}
	if u.ranks.IntN(2) == 0 {
		w.session, w.locks = s.ID(), a
		first["Verb"], first["Session"] = lockapi.KeyLock, s.ID()
	}
	second := map[string]any{"Verb": lockapi.KeyCAS, "Key": b[1:], "Value": content, "Index": u.known[b]}
	body, _ := json.Marshal([]any{map[string]any{"KV": first}, map[string]any{"KV": second}})
	switch status, text, _ := u.enters(ctx, http.MethodPut, "/v1/txn", string(body)); status {
	case http.StatusOK:
		u.w.oracle.wroteKey(w)
		u.known[b] = w.done[b]
	case http.StatusConflict:
		if w.session == "" {
			u.w.oracle.otherIndex(w, floor)
		}
		u.w.oracle.notWritten(w, errors.New(text))
		u.readsKey(ctx, b)
	default:
		u.pace(ctx)
	}
}

// shownKey is a key as the door shows it.
type shownKey struct {
	LockIndex, Flags, CreateIndex, ModifyIndex uint64
	Key, Session                               string
	Value                                      []byte
}

// readsKey reads a key.
func (u *user) readsKey(ctx context.Context, path string) {
	floor := u.w.oracle.floor()
	status, body, header := u.enters(ctx, http.MethodGet, "/v1/kv"+path, "")
	index, _ := strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64)
	switch status {
	case http.StatusNotFound:
		u.w.oracle.keyRead(u.name, floor, index, path, nil)
		u.known[path] = 0
	case http.StatusOK:
		var all []shownKey
		if err := json.Unmarshal([]byte(body), &all); err != nil || len(all) != 1 {
			u.w.fail("%s read key %s as %s", u.name, path, body)
			return
		}
		u.w.oracle.keyRead(u.name, floor, index, path, &all[0])
		u.known[path] = all[0].ModifyIndex
	default:
		u.pace(ctx)
	}
}

// endsSession ends the user's session through the door: the lock-delays of its
// keys begin.
func (u *user) endsSession(ctx context.Context, session string) {
	if status, _, _ := u.enters(ctx, http.MethodPut, "/v1/session/destroy/"+session, ""); status == http.StatusOK {
		u.w.oracle.closed(u.name, session)
	}
}

// enters makes one call through the door. The status is 0 without an answer.
func (u *user) enters(ctx context.Context, method, route, body string) (status int, text string, header http.Header) {
	return u.entersWithin(ctx, between(u.ranks, 50*time.Millisecond, 6*time.Second), method, route, body)
}

func (u *user) entersWithin(ctx context.Context, within time.Duration, method, route, body string) (status int, text string, header http.Header) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	to := u.anyone()
	q, err := http.NewRequestWithContext(ctx, method, "http://"+to+route, bytes.NewReader([]byte(body)))
	if err != nil {
		panic(err)
	}
	resp, err := u.w.endpoint(u.name, u.ctx).RoundTrip(q)
	if err != nil {
		return 0, "", nil
	}
	raw, _ := io.ReadAll(resp.Body)
	text = string(bytes.TrimSpace(raw))
	u.w.trace.note(u.name, "%s %s with %q by %s → %d %s", method, route, body, to, resp.StatusCode, text)
	return resp.StatusCode, text, maps.Clone(resp.Header)
}
