package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// KeyCall is a call for keys through the door for Consul's clients, as
// operations, and its answer. Its keys are in one directory, and are plain: the
// path of a key is the key after a slash.
type KeyCall struct {
	Operations []lockapi.KeyOperation `json:"operations"`
	Stale      bool                   `json:"stale,omitempty"`
	After      uint64                 `json:"after,omitempty"` // index of a blocking query

	Found  []lockapi.Key `json:"found,omitempty"`  // if Done: the keys that the operations read and wrote
	Failed []int         `json:"failed,omitempty"` // if Refused: operations
	Index  uint64        `json:"index,omitempty"`  // X-Consul-Index
}

func (c *KeyCall) String() string {
	var words []string
	for i := range c.Operations {
		o := &c.Operations[i]
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s %.24q", o.Verb, o.Path[strings.LastIndex(o.Path, "/")+1:], o.Content)))
	}
	for i := range c.Found {
		k := &c.Found[i]
		words = append(words, fmt.Sprintf("→ %.24q locks=%d session=%s at %d", k.Content, k.Locks, short(k.Session), k.ModifyIndex))
	}
	if c.Stale {
		words = append(words, "stale")
	}
	return strings.Join(words, ", ")
}

// Paths of the door.
const (
	doorKeys    = "/v1/kv/"
	doorTxn     = "/v1/txn"
	doorCreate  = "/v1/session/create"
	doorDestroy = "/v1/session/destroy/"
	doorRenew   = "/v1/session/renew/"
)

func isDoor(path string) bool {
	return path == doorTxn || path == doorCreate || slices.ContainsFunc([]string{doorKeys, doorDestroy, doorRenew},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// doorKey is a key as the door shows it, and as a transaction names it.
type doorKey struct {
	Verb                     lockapi.KeyVerb
	Key, Session             string
	Value                    []byte
	Flags, Index             uint64
	LockIndex                uint64
	CreateIndex, ModifyIndex uint64
}

// doorSession is a session as the door shows it. LockDelay is a text in requests
// and a number in answers.
type doorSession struct {
	ID, TTL, Behavior string
	LockDelay         any
}

func (k *doorKey) key() lockapi.Key {
	return lockapi.Key{Path: "/" + k.Key, Content: k.Value, Flags: k.Flags, Locks: k.LockIndex,
		CreateIndex: k.CreateIndex, ModifyIndex: k.ModifyIndex, Session: k.Session}
}

// parseDoorRequest parses a request to the door. ok is false if the request is
// not one that is recorded.
func (a *Attempt) parseDoorRequest(req *http.Request) (ok bool, err error) {
	path, q := req.URL.Path, req.URL.Query()
	body, err := []byte(nil), error(nil)
	if !isDoor(path) {
		return false, nil
	}
	if body, err = bodyOf(req); err != nil {
		return false, err
	}
	switch {
	case path == doorCreate:
		var in doorSession
		if err := json.Unmarshal(body, &in); err != nil {
			return false, err
		}
		a.Kind = Open
		return true, errors.Join(a.keysEnd(in.Behavior, fmt.Sprint(in.LockDelay)), a.lease(in.TTL))
	case strings.HasPrefix(path, doorDestroy):
		a.Kind, a.Session, a.Delays = Close, strings.TrimPrefix(path, doorDestroy), true
		return true, nil
	case strings.HasPrefix(path, doorRenew):
		a.Kind, a.Session = Keepalive, strings.TrimPrefix(path, doorRenew)
		return true, nil
	case path == doorTxn:
		var in []struct{ KV doorKey }
		if err := json.Unmarshal(body, &in); err != nil {
			return false, err
		}
		a.Kind, a.Keys = KeyChange, &KeyCall{}
		for _, op := range in {
			a.Keys.Operations = append(a.Keys.Operations, lockapi.KeyOperation{Verb: op.KV.Verb, Path: "/" + op.KV.Key,
				Content: op.KV.Value, Flags: op.KV.Flags, Index: op.KV.Index, Session: op.KV.Session})
		}
		a.Path = a.Keys.Operations[0].Path
		return true, nil
	}
	a.Path = "/" + strings.TrimPrefix(path, doorKeys)
	return true, a.parseKey(req.Method, q, body)
}

// parseKey parses a request for one key, or for the keys with a prefix.
func (a *Attempt) parseKey(method string, q url.Values, body []byte) error {
	op := lockapi.KeyOperation{Path: a.Path, Content: body}
	a.Keys, a.Kind = &KeyCall{Stale: q.Has("stale")}, KeyChange
	switch {
	case method == http.MethodGet:
		a.Kind, op.Verb = KeyRead, lockapi.KeyGetOrEmpty
		if q.Has("recurse") {
			op.Verb = lockapi.KeyGetTree
		}
	case method == http.MethodDelete && q.Has("cas"):
		op.Verb = lockapi.KeyDeleteCAS
	case method == http.MethodDelete:
		op.Verb = lockapi.KeyDelete
	case q.Has("cas"):
		op.Verb = lockapi.KeyCAS
	case q.Has("acquire"):
		op.Verb, op.Session = lockapi.KeyLock, q.Get("acquire")
	case q.Has("release"):
		op.Verb, op.Session = lockapi.KeyUnlock, q.Get("release")
	default:
		op.Verb = lockapi.KeySet
	}
	a.Session = op.Session
	var errs []error
	for name, to := range map[string]*uint64{"cas": &op.Index, "flags": &op.Flags, "index": &a.Keys.After} {
		if q.Has(name) {
			var err error
			*to, err = strconv.ParseUint(q.Get(name), 10, 64)
			errs = append(errs, err)
		}
	}
	a.Keys.Operations = []lockapi.KeyOperation{op}
	return errors.Join(errs...)
}

// keysEnd notes what becomes of a session's keys when it ends.
func (a *Attempt) keysEnd(behavior, delay string) error {
	d, err := time.ParseDuration(cmp.Or(delay, lockapi.DefaultKeyDelay))
	a.Deletes, a.DelayMS = behavior == lockapi.KeysDeleted, d.Milliseconds()
	return err
}

// lease notes the lease of a session with that TTL: it ends at twice the TTL.
func (a *Attempt) lease(ttl string) error {
	d, err := time.ParseDuration(ttl)
	a.TTLMS = 2 * d.Milliseconds()
	return err
}

// parseDoorReply records an answer of the door.
func (a *Attempt) parseDoorReply(resp *http.Response, body []byte) (err error) {
	text := string(body)
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusInternalServerError &&
		(strings.HasPrefix(text, "No cluster leader") || strings.HasPrefix(text, "this call needs a higher level")):
		a.Outcome, a.Detail = NoEffect, text
		return nil
	case code == http.StatusInternalServerError && strings.HasPrefix(text, "invalid session"),
		code == http.StatusNotFound && a.Kind == Keepalive:
		a.Outcome = Gone
		return nil
	case code == http.StatusInternalServerError:
		a.Outcome, a.Detail = Unknown, text
		return nil
	case code == http.StatusConflict && a.Keys != nil:
		var out struct{ Errors []struct{ OpIndex int } }
		err := json.Unmarshal(body, &out)
		for _, e := range out.Errors {
			a.Keys.Failed = append(a.Keys.Failed, e.OpIndex)
		}
		a.Outcome, a.Detail = Refused, text
		return err
	case code != http.StatusOK && (code != http.StatusNotFound || a.Kind != KeyRead):
		return errors.New("unexpected refusal")
	}
	a.Outcome = Done
	switch {
	case a.Kind == Open:
		var out doorSession
		err = json.Unmarshal(body, &out)
		a.Session = out.ID
	case a.Kind == Keepalive:
		var out []doorSession
		if err = json.Unmarshal(body, &out); err == nil {
			err = a.lease(out[0].TTL)
		}
	case resp.Request.URL.Path == doorTxn:
		var out struct{ Results []struct{ KV doorKey } }
		err = json.Unmarshal(body, &out)
		for _, r := range out.Results {
			a.Keys.Found = append(a.Keys.Found, r.KV.key())
		}
	case a.Kind == KeyRead:
		if a.Keys.Index, err = strconv.ParseUint(resp.Header.Get("X-Consul-Index"), 10, 64); err != nil || resp.StatusCode == http.StatusNotFound {
			return err
		}
		var out []doorKey
		err = json.Unmarshal(body, &out)
		for i := range out {
			a.Keys.Found = append(a.Keys.Found, out[i].key())
		}
	default: // a change, or the end of a session
		var changed bool
		if err = json.Unmarshal(body, &changed); err == nil && !changed {
			a.Outcome, a.Keys.Failed = Refused, []int{0}
		}
	}
	return err
}
