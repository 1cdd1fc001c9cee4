package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

func openSession(x *exchange) error {
	req := lockapi.NewSessionRequest()
	if err := x.request(&req); err != nil {
		return err
	}
	key, err := x.idempotencyKey()
	if err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		s, err := x.master.OpenSession(ctx, master.OpenSessionRequest{Caller: x.caller(), Key: key, SessionRequest: req})
		return http.StatusCreated, s, err
	}})
}

func keepalive(x *exchange) error {
	id, err := x.sessionID()
	if err != nil {
		return err
	}
	var req lockapi.KeepaliveRequest
	if err := x.request(&req); err != nil {
		return err
	}
	if x.keeps = true; x.hurried {
		req.WaitMS = 0
		if x.body, err = json.Marshal(req); err != nil { // for the master, if that is another replica
			return err
		}
	}
	return x.dispatch(task{repeatable: true, wait: ms(req.WaitMS), run: func(ctx context.Context) (int, any, error) {
		k, err := x.master.Keepalive(ctx, master.KeepaliveRequest{Caller: x.callerAbout(id, true), Session: id, KeepaliveRequest: req})
		return http.StatusOK, k, err
	}})
}

func readSession(x *exchange) error {
	id, err := x.sessionID()
	if err != nil {
		return err
	}
	return x.dispatchRead(x.master.CrowdedSession(id), func(ctx context.Context, r master.Read) (any, error) {
		r.Caller = x.callerAbout(id, false)
		return x.master.Session(ctx, master.SessionQuery{Read: r, ID: id})
	})
}

func closeSession(x *exchange) error {
	id, err := x.sessionID()
	if err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		return http.StatusNoContent, nil, x.master.CloseSession(ctx, master.CloseSessionRequest{Caller: x.callerAbout(id, true), Session: id})
	}})
}

func listSessions(x *exchange) error {
	limit, err := x.query.limit()
	if err != nil {
		return err
	}
	return x.readList(func(ctx context.Context, r master.Read) (any, error) {
		return x.master.Sessions(ctx, master.SessionsQuery{Read: r, After: x.query.of(paramAfter), Limit: limit})
	})
}

// request reads and validates the body.
func (x *exchange) request(into any) error {
	if err := decode(x.body, into); err != nil {
		return err
	}
	if v, ok := into.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	x.body = trimBody(x.body)
	return nil
}

// read dispatches a call that has no effect. Its reply tells of which revision it is.
func (x *exchange) read(run func(ctx context.Context, r master.Read) (any, error)) error {
	return x.dispatchRead(false, run)
}

// readList is read for a list.
func (x *exchange) readList(run func(ctx context.Context, r master.Read) (any, error)) error {
	return x.dispatchRead(true, run)
}

func (x *exchange) dispatchRead(heavy bool, run func(ctx context.Context, r master.Read) (any, error)) error {
	stale, err := x.query.stale()
	if err != nil {
		return err
	}
	return x.dispatch(task{repeatable: true, stale: stale, heavy: heavy, run: func(ctx context.Context) (int, any, error) {
		var revision uint64
		body, err := run(ctx, master.Read{Caller: x.caller(), Stale: stale, AsOf: &revision})
		if err == nil || !errors.Is(err, lockapi.CodeNoMaster) {
			x.c.Writer.Header()[lockapi.HeaderRevision] = []string{strconv.FormatUint(revision, 10)}
		}
		return http.StatusOK, body, err
	}})
}

// sessionID is the id in the request's path. Ids are the server's own; one that
// could never be is refused by the rules for segments of a path.
func (x *exchange) sessionID() (string, error) { return sessionID(x.c.Param("id")) }

func sessionID(raw string) (string, error) {
	id, err := url.PathUnescape(raw)
	if err != nil || id == "" || !utf8.ValidString(id) || strings.Contains(id, "/") {
		return "", lockapi.Invalid("id", "the session id %q is malformed", lockapi.Clip(raw))
	}
	return id, nil
}

func (x *exchange) idempotencyKey() (string, error) {
	values := x.c.Request.Header.Values(lockapi.HeaderIdempotencyKey)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], lockapi.ValidateKey(values[0])
	}
	return "", lockapi.Invalid(lockapi.HeaderIdempotencyKey, "the header %s is given more than once", lockapi.HeaderIdempotencyKey)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
