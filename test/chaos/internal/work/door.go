package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// door is a client of the door for Consul's clients. It sends each call to a
// random replica, and no call twice. Some of its sessions are opened by the API,
// which permits shorter leases.
type door struct {
	*raw
	pen
}

func newDoor(title string, opts *Options) *door {
	return &door{raw: newRaw(title, opts), pen: pen{author: title}}
}

// shown is a key in an answer of the door.
type shown struct {
	Key         string
	Value       []byte
	ModifyIndex uint64
}

// reply is an answer of the door.
type reply struct {
	status int
	body   []byte
	index  uint64
}

// done reports whether the door answered true.
func (a *reply) done() bool { return a.status == http.StatusOK && string(a.body) == "true" }

// keys returns the keys in the answer to a read.
func (a *reply) keys() (all []shown) {
	if a.status == http.StatusOK {
		_ = json.Unmarshal(a.body, &all) // the record has the answer
	}
	return all
}

// at returns the ModifyIndex of a key in the answer; 0 for none.
func (a *reply) at(key string) uint64 {
	for _, k := range a.keys() {
		if k.Key == key {
			return k.ModifyIndex
		}
	}
	return 0
}

// errGone reports that the session has ended.
var errGone = errors.New("the session has ended")

// ask makes one call at a door. Without an answer the status is 0.
func (w *door) ask(ctx context.Context, door, method, target string, body []byte) *reply {
	resp, content, err := cell.Exchange(ctx, w.http, method, door+target, nil, body)
	if err != nil {
		return &reply{}
	}
	index, _ := strconv.ParseUint(resp.Header.Get("X-Consul-Index"), 10, 64) // 0 if absent
	return &reply{resp.StatusCode, content, index}
}

// any makes one call at the door of a random replica.
func (w *door) any(ctx context.Context, r *rand.Rand, method, target string, body []byte) *reply {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	return w.ask(ctx, w.opts.Doors[r.IntN(len(w.opts.Doors))], method, target, body)
}

// put writes a key with a new content.
func (w *door) put(ctx context.Context, r *rand.Rand, key, query string) *reply {
	return w.any(ctx, r, http.MethodPut, "/v1/kv/"+key+"?"+query, w.text())
}

func (w *door) get(ctx context.Context, r *rand.Rand, key, query string) *reply {
	return w.any(ctx, r, http.MethodGet, "/v1/kv/"+key+"?"+query, nil)
}

// session opens a session and renews it until it is abandoned.
func (w *door) session(ctx context.Context, r *rand.Rand) (*rawSession, error) {
	s := &rawSession{ttl: 20 * time.Second} // twice the least TTL of the door
	delay := []string{"0s", "300ms", "1s"}[r.IntN(3)]
	behavior := []string{lockapi.KeysReleased, lockapi.KeysDeleted}[r.IntN(2)]
	var opened lockapi.Session
	if r.IntN(2) == 0 {
		body := fmt.Appendf(nil, `{"Name":%q,"TTL":"10s","LockDelay":%q,"Behavior":%q}`, w.title, delay, behavior)
		a := w.any(ctx, r, http.MethodPut, "/v1/session/create", body)
		if a.status != http.StatusOK {
			return nil, fmt.Errorf("status %d: %s", a.status, a.body)
		}
		if err := json.Unmarshal(a.body, &opened); err != nil {
			return nil, err
		}
	} else {
		s.ttl = 2 * between(r, 500*time.Millisecond, time.Second).Truncate(time.Millisecond)
		req := lockapi.NewSessionRequest()
		req.TTLMS, req.Name = s.ttl.Milliseconds(), w.title
		req.Meta = map[string]string{lockapi.MetaKeyDelay: delay, lockapi.MetaKeyBehavior: behavior, "consul-ttl": (s.ttl / 2).String()}
		if err := w.brief(ctx, r, http.MethodPost, lockapi.RouteSessions, req, &opened); err != nil {
			return nil, err
		}
	}
	s.id = opened.ID
	ctx, s.stop = context.WithCancel(ctx)
	own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	s.kept.Go(func() {
		for ctx.Err() == nil && w.any(ctx, own, http.MethodPut, "/v1/session/renew/"+s.id, nil).status != http.StatusNotFound {
			cell.Pause(ctx, min(s.ttl/8, time.Second))
		}
	})
	return s, nil
}

// end ends a session, mostly with a lock: with lock-delays, without, or by its
// expiry.
func (w *door) end(ctx context.Context, r *rand.Rand, s *rawSession, key string) {
	if r.IntN(4) > 0 {
		w.put(ctx, r, key, "acquire="+s.id)
	}
	s.abandon()
	switch n := r.IntN(4); {
	case n == 0:
		_ = w.brief(ctx, r, http.MethodDelete, sessionRoute(s.id), nil, nil) // if this fails, the session expires
	case n == 1 || s.ttl > 10*time.Second:
		for range 10 { // otherwise a session of the door lives for 20 s more
			if w.any(ctx, r, http.MethodPut, "/v1/session/destroy/"+s.id, nil).done() {
				return
			}
			cell.Pause(context.WithoutCancel(ctx), 300*time.Millisecond)
		}
	}
}

// work needs the level of the cell at which the door changes keys. Until then
// its calls are refused.
func (w *door) work(ctx context.Context, r *rand.Rand, epoch int) {
	dir := fmt.Sprintf("chaos/%d/door/", epoch)
	if !w.put(ctx, r, dir+"conf", "").done() {
		cell.Pause(ctx, 200*time.Millisecond)
		return
	}
	s, err := w.session(ctx, r)
	if err != nil {
		cell.Pause(ctx, 50*time.Millisecond)
		return
	}
	defer w.end(ctx, r, s, dir+"leader")
	gone := w.hold(ctx, r, s.id, dir+"leader") // the last holder may just have ended
	for gone == nil && ctx.Err() == nil && r.IntN(15) > 0 {
		gone = w.round(ctx, r, s.id, dir)
		cell.Pause(ctx, between(r, 20*time.Millisecond, 100*time.Millisecond))
	}
}

// round makes one change or read, or a few related ones.
func (w *door) round(ctx context.Context, r *rand.Rand, session, dir string) error {
	key := dir + []string{"a", "b", "conf"}[r.IntN(3)]
	switch r.IntN(10) {
	case 0:
		w.put(ctx, r, key, fmt.Sprintf("flags=%d", r.IntN(100)))
	case 1:
		for range 2 {
			w.put(ctx, r, key, fmt.Sprintf("cas=%d", w.get(ctx, r, key, "").at(key)))
		}
	case 2:
		query := ""
		if r.IntN(2) == 0 {
			query = fmt.Sprintf("?cas=%d", max(w.get(ctx, r, key, "consistent").at(key), 1))
		}
		w.any(ctx, r, http.MethodDelete, "/v1/kv/"+key+query, nil)
	case 3:
		w.get(ctx, r, dir, []string{"recurse", "recurse&stale"}[r.IntN(2)])
	case 4:
		w.get(ctx, r, dir+"lock", "stale")
	case 5:
		w.transact(ctx, r, session, dir)
	case 6:
		return w.byAPI(ctx, r, session, "/"+dir+"lock")
	default:
		return w.hold(ctx, r, session, dir+[]string{"lock", "leader"}[r.IntN(2)])
	}
	return nil
}

// hold acquires a lock, uses it for a moment, and mostly releases it. If the
// lock is held, it waits for a change of the key.
func (w *door) hold(ctx context.Context, r *rand.Rand, session, key string) error {
	switch a := w.put(ctx, r, key, "acquire="+session); {
	case strings.HasPrefix(string(a.body), "invalid session"):
		return errGone
	case !a.done():
		now := w.get(ctx, r, key, "")
		w.get(ctx, r, key, fmt.Sprintf("index=%d&wait=%dms", max(now.index, 1), 50+r.IntN(500)))
		return nil
	}
	if r.IntN(2) == 0 {
		w.put(ctx, r, key, "")
	}
	cell.Pause(ctx, between(r, 0, 50*time.Millisecond))
	w.get(ctx, r, key, "")
	switch r.IntN(8) {
	case 0, 1: // until the session ends
	case 2:
		w.any(ctx, r, http.MethodDelete, "/v1/kv/"+key, nil)
	default:
		w.put(ctx, r, key, "release="+session)
	}
	return nil
}

// transact changes two keys if they are as they were read, or takes a lock and
// writes.
func (w *door) transact(ctx context.Context, r *rand.Rand, session, dir string) {
	type kv map[string]any
	a, b, lock := dir+"a", dir+"b", dir+"leader"
	all := w.get(ctx, r, dir, "recurse")
	ops := []kv{{"Verb": "check-index", "Key": a, "Index": all.at(a)}, {"Verb": "set", "Key": b, "Value": w.text()},
		{"Verb": "cas", "Key": a, "Index": all.at(a), "Value": w.text()}, {"Verb": "get-tree", "Key": dir}}
	switch {
	case r.IntN(2) == 0:
		ops = []kv{{"Verb": "lock", "Key": lock, "Session": session, "Value": w.text()}, {"Verb": "check-session", "Key": lock, "Session": session},
			{"Verb": "set", "Key": a, "Value": w.text()}, {"Verb": "get", "Key": lock}, {"Verb": "unlock", "Key": lock, "Session": session, "Value": w.text()}}
	case all.at(a) == 0:
		ops[0] = kv{"Verb": "check-not-exists", "Key": a}
	}
	var in []map[string]kv
	for _, op := range ops {
		in = append(in, map[string]kv{"KV": op})
	}
	body, err := json.Marshal(in)
	if err == nil {
		w.any(ctx, r, http.MethodPut, "/v1/txn", body)
	}
}

// byAPI reads a key and its lock through the API, and takes the lock there.
func (w *door) byAPI(ctx context.Context, r *rand.Rand, session, path string) error {
	_ = w.brief(ctx, r, http.MethodGet, fileRoute(path)+"?as=json", nil, nil) // the answers are recorded
	_ = w.brief(ctx, r, http.MethodGet, lockRoute(path), nil, nil)
	w.texts++
	req := lockapi.NewLockRequest(session)
	req.Handle = fmt.Sprint("api", w.texts)
	err := w.brief(ctx, r, http.MethodPut, lockRoute(path), req, nil)
	if err == nil || lost(err) {
		cell.Pause(ctx, between(r, 0, 50*time.Millisecond))
		err = w.insist(ctx, r, http.MethodDelete, releaseRoute(path, session, req.Handle, 0), nil, nil)
	}
	if errors.Is(err, lockapi.CodeSessionNotFound) {
		return errGone
	}
	return nil
}

// until repeats a call until it is done or ctx ends.
func until(ctx context.Context, what string, call func() *reply) error {
	for {
		a := call()
		if a.done() {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %d %s", what, a.status, a.body)
		}
		cell.Pause(ctx, 50*time.Millisecond)
	}
}

func (w *door) prove(ctx context.Context) error {
	r := rand.New(rand.NewPCG(w.opts.Seed, uint64(len(w.title))))
	for {
		s, err := w.session(ctx, r)
		if err != nil && ctx.Err() == nil {
			cell.Pause(ctx, 50*time.Millisecond)
			continue
		} else if err != nil {
			return fmt.Errorf("create a session: %w", err)
		}
		defer s.abandon()
		key := "chaos/prove/" + w.title + "/lock"
		return errors.Join(
			until(ctx, "acquire a key", func() *reply { return w.put(ctx, r, key, "acquire="+s.id) }),
			until(ctx, "delete the key", func() *reply { return w.any(ctx, r, http.MethodDelete, "/v1/kv/"+key, nil) }),
			until(ctx, "destroy the session", func() *reply { return w.any(ctx, r, http.MethodPut, "/v1/session/destroy/"+s.id, nil) }))
	}
}
