package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/consul"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/lockapi/server/internal/stream"
	"github.com/stoutlock/stout/master"
)

// The door is the API for Consul's clients, with a listener of its own. Package
// consul reads its requests and writes its answers. This file forwards, admits
// and counts them as calls of the other API. Between replicas their paths have
// a prefix, since both APIs begin with /v1/.

// ServeConsul serves Consul's clients on connections of l until Shutdown, when
// it returns nil. It closes l.
func (s *Server) ServeConsul(l net.Listener) error { return s.door.serve(l, s.conns) }

// ConsulHandler returns the door for Consul's clients as an http.Handler, with
// the limits of Handler.
func (s *Server) ConsulHandler() http.Handler { return s.door.handler }

func maxDoorBody(*http.Request) int64 { return consul.MaxBody }

// prepareForDoor gives a request the form that it has between replicas.
func prepareForDoor(r *http.Request) {
	moveToken(r)
	r.URL.RawPath = consul.Prefix + r.URL.EscapedPath()
	r.URL.Path = consul.Prefix + r.URL.Path
}

// moveToken moves a token to the Authorization header. The query's token takes
// precedence over X-Consul-Token, and that over the Authorization header. No
// token stays in the query, which is forwarded.
func moveToken(r *http.Request) {
	token := r.Header.Get("X-Consul-Token")
	if strings.Contains(r.URL.RawQuery, "token=") {
		if q, err := url.ParseQuery(r.URL.RawQuery); err == nil {
			token = cmp.Or(q.Get("token"), token)
			q.Del("token")
			r.URL.RawQuery = q.Encode()
		}
	}
	if token != "" {
		r.Header[headerAuthorization] = []string{"Bearer " + token}
	}
}

var doorRoutes = func() (all table) {
	for _, e := range consul.Endpoints {
		pattern := consul.Prefix + e.Path
		if strings.HasSuffix(pattern, "/") {
			pattern += "*name"
		}
		r := route{method: e.Method, template: templateOf(pattern), pattern: pattern, door: true, asks: master.KnownCaller, body: consul.MaxBody}
		switch {
		case e.Path == consul.PathDestroy:
			r.audits = master.AuditOthers
		case e.Method != http.MethodGet:
			r.audits = master.AuditChanges
		}
		r.handle = func(x *exchange) error { return x.enterDoor(e.Path) }
		all = append(all, r)
	}
	return all
}()

func errNoDoor(x *exchange) error {
	status, text := consul.NotFound(x.c.Request.Method, strings.TrimPrefix(x.c.Request.URL.Path, consul.Prefix))
	x.write(status, typeText, []byte(text))
	return nil
}

func (x *exchange) enterDoor(endpoint string) error {
	in := x.c.Request
	call, err := consul.Parse(&consul.Request{Method: methodOf(in), Endpoint: endpoint, Argument: strings.TrimPrefix(x.c.Param("name"), "/"),
		Query: in.URL.RawQuery, Body: x.body})
	if err != nil {
		return err
	}
	x.node, x.noted.under = call.Path, call.Under
	x.call.Keeps = endpoint == "/v1/session/renew/"
	if call.Watch != nil && !x.peer {
		arrived := x.shared.Next()
		if err := x.awaitChange(call.Watch, call.Stale); err != nil {
			return err
		}
		in.URL.RawQuery, x.arrived = call.Query, arrived
	}
	if call.Local != nil {
		return x.describeCell(call)
	}
	return x.dispatch(task{repeatable: call.Reads || call.Repeats, stale: call.Stale, run: func(ctx context.Context) (int, any, error) {
		if err := x.pace(call.Frees); err != nil {
			return 0, nil, err
		}
		r, err := call.Run(ctx, doorOffice{x, call.Stale})
		if err != nil {
			return 0, nil, err
		}
		return r.Status, x.doorDocument(r), nil
	}})
}

func methodOf(r *http.Request) string {
	if r.Method == http.MethodHead {
		return http.MethodGet
	}
	return r.Method
}

type doorOffice struct {
	x     *exchange
	stale bool
}

func (o doorOffice) Node() string { return o.x.master.View().Own.ID }

func (o doorOffice) Do(ctx context.Context, c lockapi.Call) (any, uint64, error) {
	answer, out, err := o.x.do(ctx, o.stale, c)
	return answer, out.Revision, err
}

func (x *exchange) describeCell(call *consul.Call) error {
	by := x.caller()
	by.Ask.Right = master.Known
	if err := x.master.Authorize(by); err != nil {
		return err
	}
	if err := x.pace(false); err != nil {
		return err
	}
	r, err := call.Local(x.cellForDoor())
	if err != nil {
		return err
	}
	return x.replyDocument(r.Status, x.doorDocument(r))
}

// doorDocument returns an answer with the headers that Consul's clients expect.
func (x *exchange) doorDocument(r *consul.Reply) *document {
	d := &document{header: map[string]string{"Cache-Control": "no-store", "Vary": "Authorization, Origin, X-Consul-Token"}, raw: r.Body}
	if r.Type != "" {
		d.contentType = []string{r.Type}
	}
	if r.Raw {
		d.header["X-Content-Type-Options"], d.header["Content-Security-Policy"] = "nosniff", "sandbox"
	}
	if r.Index > 0 {
		at := x.master.Known()
		d.header["X-Consul-Index"] = strconv.FormatUint(r.Index, 10)
		d.header["X-Consul-KnownLeader"] = strconv.FormatBool(at.ID != "" || at.Self)
		contact := int64(0)
		if !at.Self {
			contact = x.master.View().Own.LastContactMS
		}
		d.header["X-Consul-LastContact"] = strconv.FormatInt(contact, 10)
	}
	return d
}

func (x *exchange) cellForDoor() *consul.Cell {
	at, view := x.master.Known(), x.master.View()
	c := &consul.Cell{Self: view.Own.ID, Version: view.Own.Version, Revision: at.Revision}
	for _, r := range view.Cell.Replicas {
		c.Members = append(c.Members, consul.Member{ID: r.ID, Address: r.RaftAddr})
		if r.ID == at.ID {
			c.Leader = r.RaftAddr
		}
	}
	return c
}

// doorEvents are the types of events that change what the door shows of a key.
var doorEvents = []lockapi.EventType{lockapi.EventFileCreated, lockapi.EventFileChanged, lockapi.EventFileDeleted, lockapi.EventLockAcquired, lockapi.EventLockReleased}

// awaitChange returns when a blocking query is to be answered. A change came
// after its index, its wait is over, or the index is too old or another cell's.
func (x *exchange) awaitChange(b *consul.Watch, stale bool) error {
	paths, prefixes := []string{b.Path}, []string(nil)
	if b.Prefix != "" {
		paths, prefixes = nil, []string{b.Prefix}
	}
	filter, err := master.NewEventFilter(paths, prefixes, doorEvents, false)
	if err != nil {
		return err
	}
	by := x.caller()
	if b.Path != "" {
		by.Ask.Right = master.ReadAt
	}
	if err := x.master.Authorize(by); errors.Is(err, lockapi.CodePermissionDenied) {
		return nil // answer at once: the master refuses it, or knows of a new right
	} else if err != nil {
		return err
	}
	leave, err := x.enterWatch() // which may displace another watch
	if err != nil {
		return err
	}
	defer leave()
	events, err := x.master.WatchEvents(filter.For(*by))
	if err != nil {
		return err
	}
	defer events.Close()
	err = x.checkReached(events, b.After)
	if err == nil {
		x.trimHeaders()
	}
	until := time.Now().Add(b.Wait + rand.N(b.Wait/16+1))
	w := &stream.Watch{Shared: x.streams, Events: events, After: b.After}
	for {
		var found []lockapi.CellEvent
		if err == nil {
			found, err = w.Next(x.ctx(), earlier(until, time.Now().Add(contactEvery)), lockapi.DefaultListLimit)
		}
		switch {
		case errors.Is(err, lockapi.CodeCompacted):
			// The events are no longer kept. A locked key may be as it was; else
			// answer at once, with a valid index.
			if w.After, err = x.unchangedSince(b); err != nil || w.After == 0 {
				return err
			}
		case err != nil:
			return err
		case len(found) == 0 && (!time.Now().Before(until) || x.isDraining()):
			return nil
		case len(found) == 0 && !stale:
			err = x.hasContact()
		case slices.ContainsFunc(found, func(e lockapi.CellEvent) bool { return e.Type != lockapi.EventMasterChanged }):
			return nil
		}
	}
}

// contactEvery is the interval in which a blocking query checks that its replica
// has contact with a master, and mostSilence how long it may have none. Consul's
// queries break with the connection to the leader: a client that only watches its
// lock would else learn of the loss when its wait is over.
const contactEvery, mostSilence = 5 * time.Second, 10 * time.Second

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hasContact returns an error if this replica has had no contact with a master for
// too long.
func (x *exchange) hasContact() error {
	if x.master.Known().Self {
		return nil
	}
	if silent := time.Duration(x.master.View().Own.LastContactMS) * time.Millisecond; silent > mostSilence {
		return lockapi.Errorf(lockapi.CodeNoMaster, "this replica has had no contact with a master for %v", silent.Round(time.Second))
	}
	return nil
}

// unchangedSince returns a revision of this replica's own state up to which the key
// of a query has not changed since the query's index; 0 if it has changed, or that
// is unknown: grants and releases by Stout's own API leave no trace in a key.
// Patroni's standbys wait at the ModifyIndex of the leader's key, for hours.
func (x *exchange) unchangedSince(b *consul.Watch) (uint64, error) {
	if b.Path == "" {
		return 0, nil
	}
	answer, out, err := x.do(x.ctx(), true, &lockapi.GetKey{Path: b.Path})
	if err != nil {
		return 0, err
	}
	if keys, _ := answer.([]lockapi.Key); len(keys) == 1 && keys[0].Locked && keys[0].ModifyIndex <= b.After && out.Revision > b.After {
		return out.Revision, nil
	}
	return 0, nil
}

// plain turns another replica's problem document into an error as Consul's
// clients expect it. If that replica's release has no door, the error must not
// look like a missing key.
func (x *exchange) plain(got peers.Answer) peers.Answer {
	if got.Header.Get("Content-Type") != typeProblem[0] {
		return got
	}
	var e lockapi.Error
	if err := json.Unmarshal(got.Body, &e); err != nil || e.Code == lockapi.CodeNotFound || e.Code == lockapi.CodeMethodNotAllowed {
		e = *lockapi.Errorf(lockapi.CodeNoMaster, "the master runs a release without the door for Consul's clients")
	}
	status, text := consul.Refusal(&e)
	got.Header["Content-Type"] = typeText
	got.Status, got.Body = status, []byte(text)
	return got
}
