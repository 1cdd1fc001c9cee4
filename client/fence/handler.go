package fence

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/stoutlock/stout/lockapi"
)

// HeaderToken is the request header with the token of the caller's hold, in
// decimal.
const HeaderToken = "Stout-Token"

// Handler guards an http.Handler. It answers
//
//	412  if the token is lower than the highest seen for the resource
//	428  without a token
//	400  if the token is not a number
//	503  if the Store fails, or the request's context ends before it may begin
//
// Requests of one holder run side by side. The first request with a higher token
// ends the contexts of those with lower ones, and waits until they have
// returned. The requests of two holders therefore never overlap. That holds
// within a process: all requests for a resource must reach the same one.
type Handler struct {
	next     http.Handler
	store    Store
	resource func(*http.Request) string

	mu    sync.Mutex // guards lanes, and the number of each lane's users
	lanes map[string]*lane
}

// lane has the requests for one resource that are under way.
type lane struct {
	users int
	turn  chan struct{} // has capacity 1, and is full while a request is admitted
	now   *tenure       // of the last request admitted; guarded by turn
}

// tenure has the requests of one holder.
type tenure struct {
	token   uint64
	ctx     context.Context // of the requests; it ends when a later holder comes
	end     context.CancelCauseFunc
	running sync.WaitGroup
}

// NewHandler returns a handler that calls next for requests with a token that is
// not stale. resource returns the name of the resource that a request uses. A
// request for "" is not guarded; it may be a read, for example.
func NewHandler(next http.Handler, store Store, resource func(*http.Request) string) *Handler {
	return &Handler{next: next, store: store, resource: resource, lanes: make(map[string]*lane)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := h.resource(r)
	if resource == "" {
		h.next.ServeHTTP(w, r)
		return
	}
	header := r.Header.Values(HeaderToken)
	if len(header) == 0 {
		refuse(w, http.StatusPreconditionRequired, "the request needs the header "+HeaderToken+", with the token of the lock that protects "+resource, nil)
		return
	}
	token, err := strconv.ParseUint(header[0], 10, 64)
	if err == nil {
		err = validate(resource, token)
	}
	if err != nil || len(header) > 1 {
		refuse(w, http.StatusBadRequest, "the header "+HeaderToken+" is not one number from 1 to "+strconv.FormatUint(lockapi.MaxToken, 10), nil)
		return
	}
	l := h.enter(resource)
	defer h.leave(resource, l)
	t, err := h.admit(r.Context(), l, resource, token)
	if stale, ok := errors.AsType[*StaleError](err); ok {
		refuse(w, http.StatusPreconditionFailed, err.Error(), stale)
		return
	} else if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error(), nil)
		return
	}
	defer t.running.Done()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	h.next.ServeHTTP(w, r.WithContext(ctx))
}

func (h *Handler) enter(resource string) *lane {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lanes[resource]
	if l == nil {
		l = &lane{turn: make(chan struct{}, 1)}
		h.lanes[resource] = l
	}
	l.users++
	return l
}

func (h *Handler) leave(resource string, l *lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(h.lanes, resource)
	}
}

// admit waits until a request may begin, and counts it in the tenure that it
// returns.
func (h *Handler) admit(ctx context.Context, l *lane, resource string, token uint64) (*tenure, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	// The token is recorded first: even if the wait fails, lower tokens are
	// refused.
	highest, err := h.store.Raise(ctx, resource, token)
	if err != nil {
		return nil, err
	}
	if highest > token {
		return nil, &StaleError{Resource: resource, Token: token, Highest: highest}
	}
	if l.now == nil || l.now.token < token {
		if err := l.finish(ctx, resource, token); err != nil {
			return nil, err
		}
		l.now = &tenure{token: token}
		l.now.ctx, l.now.end = context.WithCancelCause(context.Background())
	}
	l.now.running.Add(1)
	return l.now, nil
}

// finish ends the requests of the former holder, and waits for them.
func (l *lane) finish(ctx context.Context, resource string, token uint64) error {
	before := l.now
	if before == nil {
		return nil
	}
	before.end(&StaleError{Resource: resource, Token: before.token, Highest: token})
	ended := make(chan struct{})
	go func() {
		before.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refuse answers with a problem of RFC 9457.
func refuse(w http.ResponseWriter, status int, detail string, stale *StaleError) {
	body := struct {
		Title   string `json:"title"`
		Status  int    `json:"status"`
		Detail  string `json:"detail"`
		Token   uint64 `json:"token,omitempty"`
		Highest uint64 `json:"highest,omitempty"`
	}{Title: http.StatusText(status), Status: status, Detail: detail}
	if stale != nil {
		body.Token, body.Highest = stale.Token, stale.Highest
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
