package simcell

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Users read keys through the door here: one key, those with a prefix or their
// names, of the master or of one replica's own state, and at once or after a
// change. The oracle compares each answer with the log, and follows the blocking
// queries at each replica.

// keyPrefixes are the prefixes of lists.
var keyPrefixes = []string{"", "o", "t", "f/", "f", "q/job"}

// beyond is more than the revisions of any run.
const beyond = 1 << 40

// followsKeys reads keys until the faults are over.
func (u *user) followsKeys(ctx context.Context) {
	for ctx.Err() == nil && !u.w.faultsOver {
		u.readsKeys(ctx, keyPaths[u.ranks.IntN(len(keyPaths))])
		u.wait(ctx, u.w.profile.think)
	}
}

// readsKeys makes one read.
func (u *user) readsKeys(ctx context.Context, path string) {
	query, prefix, list := url.Values{}, "", u.ranks.IntN(3)
	switch list {
	case 1:
		query.Set("recurse", "")
	case 2:
		query.Set("keys", "")
		query.Set("separator", pick(u.ranks, "", "/"))
	}
	if list > 0 {
		prefix = keyPrefixes[u.ranks.IntN(len(keyPrefixes))]
		path = "/" + prefix
	}
	floor, after := u.w.oracle.floor(), uint64(0)
	if u.ranks.IntN(2) == 0 {
		query.Set("stale", "")
		floor = 0
	}
	if u.index > 0 && u.ranks.IntN(2) == 0 {
		after = u.index + pick(u.ranks, 0, 0, 0, uint64(beyond))
		query.Set("index", strconv.FormatUint(after, 10))
		query.Set("wait", "20s")
	}
	status, body, header := u.entersWithin(ctx, 40*time.Second, http.MethodGet, "/v1/kv"+path+"?"+query.Encode(), "")
	if status != http.StatusOK && status != http.StatusNotFound {
		u.pace(ctx)
		return
	}
	index, _ := strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64)
	// A stale answer may show a later state than a master whose lease still runs.
	if after < beyond && index < after && floor > 0 && u.indexIsCurrent {
		u.w.fail("%s waited for a change of %q after index %d, and got index %d", u.name, path, after, index)
	}
	u.index, u.indexIsCurrent = index, floor > 0
	var all []shownKey
	var names []string
	var err error
	switch {
	case status == http.StatusNotFound:
	case list == 2:
		err = json.Unmarshal([]byte(body), &names)
	default:
		err = json.Unmarshal([]byte(body), &all)
	}
	switch {
	case err != nil || list == 0 && len(all) > 1:
		u.w.fail("%s read %q as %s: %v", u.name, path, body, err)
	case list == 0 && len(all) == 0:
		u.w.oracle.keyRead(u.name, floor, index, path, nil)
	case list == 0:
		u.w.oracle.keyRead(u.name, floor, index, path, &all[0])
	case list == 1:
		u.w.oracle.keysRead(u.name, floor, index, path, all)
	default:
		u.w.oracle.namesRead(u.name, floor, index, path, query.Get("separator"), names)
	}
}

// keysRead checks a list of the keys with a prefix.
func (o *oracle) keysRead(who string, floor, revision uint64, prefix string, got []shownKey) {
	if !o.readAt(who, floor, revision) {
		return
	}
	o.w.stats.check("list of keys")
	var has []string
	for i := range got {
		has = append(has, got[i].Key)
		if wrong := o.wrongShown(revision, "/"+got[i].Key, &got[i]); wrong != "" {
			o.w.fail("%s listed %q: %s", who, prefix, wrong)
		}
	}
	if want := o.revisions.keysBelow(prefix, revision, ""); !slices.Equal(has, want) {
		o.w.fail("%s listed %q at revision %d: %q; there were %q", who, prefix, revision, has, want)
	}
}

// namesRead checks a list of the names of keys, up to a separator.
func (o *oracle) namesRead(who string, floor, revision uint64, prefix, separator string, got []string) {
	if !o.readAt(who, floor, revision) {
		return
	}
	o.w.stats.check("list of names of keys")
	if want := o.revisions.keysBelow(prefix, revision, separator); !slices.Equal(got, want) {
		o.w.fail("%s listed names %q up to %q at revision %d: %q; there were %q", who, prefix, separator, revision, got, want)
	}
}

// keysBelow returns the names of the keys with a prefix, each up to the first
// separator after it.
func (y *revisions) keysBelow(prefix string, revision uint64, separator string) (all []string) {
	for path := range y.files {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok || y.at(path, revision).file == nil {
			continue
		}
		if i := strings.Index(rest, separator); separator != "" && i >= 0 {
			rest = rest[:i+1]
		}
		all = append(all, (prefix + rest)[1:])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// blocked is a blocking query under way at a replica.
type blocked struct {
	prefix bool
	path   string
	after  uint64
	seen   uint64        // revision up to which there was no change
	over   time.Duration // the end of its wait
	due    time.Duration // when the replica had a change to answer with; 0 = not yet
}

// lateChange is how long a change may be on its way to an answer at the master
// in office. It takes no time if the process is neither stalled nor paused.
// Others wait for the master's word.
const lateChange = 200 * time.Millisecond

// blocks records a blocking query that waits at a replica and is answered by it.
func (o *oracle) blocks(p *process, q *http.Request) *blocked {
	path, door := strings.CutPrefix(q.URL.Path, "/v1/kv")
	params := q.URL.Query()
	after, err := strconv.ParseUint(params.Get("index"), 10, 64)
	wait, wrong := time.ParseDuration(params.Get("wait"))
	if !door || err != nil || wrong != nil || !params.Has("stale") {
		return nil
	}
	b := &blocked{prefix: params.Has("recurse") || params.Has("keys"), path: path, after: after, seen: after, over: o.w.now() + wait}
	p.blocked = append(p.blocked, b)
	o.advance(p)
	return b
}

// advance finds the queries that a replica has a change for.
func (o *oracle) advance(p *process) {
	for _, b := range p.blocked {
		for ; b.due == 0 && p.seen != nil && b.seen < p.seen.Revision; b.seen++ {
			e := &o.revisions.events[b.seen+1]
			if e.kind != lockapi.EventMasterChanged && e.kind != lockapi.EventLockContended &&
				(e.path == b.path || b.prefix && strings.HasPrefix(e.path, b.path)) {
				b.due = o.w.now()
			}
		}
	}
}

// masterLacks reports whether the master has not applied a revision that a
// stale read at another replica has shown. Its successor has, and waits for the
// end of its lease.
func (o *oracle) masterLacks(revision uint64) bool {
	return o.master != nil && o.master.seen != nil && o.master.seen.Revision < revision
}

// unblocks checks when a blocking query was answered, and from which state.
func (o *oracle) unblocks(p *process, b *blocked, status int, header http.Header) {
	if b == nil {
		return
	}
	o.look()
	p.blocked = slices.DeleteFunc(p.blocked, func(other *blocked) bool { return other == b })
	if p.dead() || p.closed != nil || status != http.StatusOK && status != http.StatusNotFound {
		return
	}
	o.w.stats.check("blocking query")
	now, since := o.w.now(), max(b.due, o.steady)
	prompt := o.master == p && p.m.resume == nil && max(o.w.woke, p.stalled) <= since
	index, _ := strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64)
	switch {
	case b.after < beyond && now < b.over && index < b.after && !o.masterLacks(b.after):
		o.w.fail("%s answers a query of %q after index %d with index %d", p.m.id, b.path, b.after, index)
	case b.due != 0 && now-since > lateChange && prompt:
		o.w.fail("%s answers a query of %q after index %d only %v after it has had a change", p.m.id, b.path, b.after, now-since)
	case b.after >= beyond && now >= b.over:
		o.w.fail("%s answers a query of %q after index %d, which is beyond the present one, at the end of its wait", p.m.id, b.path, b.after)
	}
}

// keyedSession is a session that a user opened through the door.
type keyedSession struct {
	id, behavior string
	delay        time.Duration
}

// doorTTL is the shortest TTL at the door. A session ends after twice its TTL.
const doorTTL = 10 * time.Second

// usesSession opens a session through the door, takes a key with it, and renews
// it for a while. It then destroys it or leaves it, and counts on it until twice
// its TTL.
func (u *user) usesSession(ctx context.Context) {
	defer func() { u.renews = false }()
	k := keyedSession{behavior: pick(u.ranks, lockapi.KeysReleased, lockapi.KeysDeleted), delay: between(u.ranks, time.Millisecond, 3*time.Second)}
	in, _ := json.Marshal(map[string]any{"TTL": doorTTL.String(), "LockDelay": k.delay.String(), "Behavior": k.behavior})
	sent := u.clock.read()
	status, body, _ := u.enters(ctx, http.MethodPut, "/v1/session/create", string(in))
	if status != http.StatusOK {
		return
	}
	var opened struct{ ID string }
	if err := json.Unmarshal([]byte(body), &opened); err != nil || opened.ID == "" {
		u.w.fail("%s opened a session through the door as %s: %v", u.name, body, err)
		return
	}
	k.id = opened.ID
	u.w.oracle.openedAtDoor(u.name, &k)
	u.promised[k.id] = sent + 2*doorTTL
	if u.ranks.IntN(2) == 0 {
		u.locksKey(ctx, k.id, keyPaths[u.ranks.IntN(len(keyPaths))])
	}
	for range u.ranks.IntN(4) {
		u.wait(ctx, 2*doorTTL)
		if ctx.Err() != nil || u.w.faultsOver || !u.renewsAtDoor(ctx, &k) {
			return
		}
	}
	if u.ranks.IntN(2) == 0 {
		delete(u.promised, k.id)
		u.endsSession(ctx, k.id)
	}
}

// renewsAtDoor renews a session, and reports whether it may live.
func (u *user) renewsAtDoor(ctx context.Context, k *keyedSession) bool {
	sent := u.clock.read()
	status, body, _ := u.enters(ctx, http.MethodPut, "/v1/session/renew/"+k.id, "")
	switch status {
	case http.StatusNotFound:
		u.w.oracle.lost(u.name, k.id)
		return false
	case http.StatusOK:
		var all []struct {
			ID, Behavior, TTL string
			LockDelay         time.Duration
		}
		if err := json.Unmarshal([]byte(body), &all); err != nil || len(all) != 1 ||
			all[0].ID != k.id || all[0].Behavior != k.behavior || all[0].TTL != doorTTL.String() || all[0].LockDelay != k.delay {
			u.w.fail("%s renewed session %v as %s: %v", u.name, *k, body, err)
		}
		u.w.stats.check("renewal through the door")
		u.promised[k.id] = max(u.promised[k.id], sent+2*doorTTL)
	}
	return true
}

// openedAtDoor checks a session that the door opened.
func (o *oracle) openedAtDoor(who string, k *keyedSession) {
	o.checks("session of the door")
	s, lives := o.latest().Session(k.id)
	if e, gone := o.ended[k.id]; !lives && (!gone || e.expired) {
		o.w.fail("%s got session %s, which is not in the log, or has expired (%v)", who, k.id, e)
	}
	if lives && (s.TTLMS != 2*doorTTL.Milliseconds() || fmt.Sprint(s.Meta[lockapi.MetaKeyDelay], s.Meta[lockapi.MetaKeyBehavior]) != fmt.Sprint(k.delay, k.behavior)) {
		o.w.fail("%s got session %v with %v", who, *k, s)
	}
}
