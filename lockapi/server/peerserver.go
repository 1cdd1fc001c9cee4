package server

import (
	"context"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/codec"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// serveCalls serves the calls of other members until Shutdown.
func (s *Server) serveCalls(l net.Listener) {
	if err := s.calls.Serve(l); err != http.ErrServerClosed {
		s.log.Error().Err(err).Msg("calls forwarded by other replicas are no longer served")
	}
}

func (s *Server) newCalls() *http.Server {
	return &http.Server{
		Handler:   s.PeerHandler(),
		Protocols: peers.Protocols(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: peers.MostStreams,
			SendPingTimeout:      peers.QuietFor, PingTimeout: peers.PingTimeout, WriteByteTimeout: peers.PingTimeout,
		},
		ReadHeaderTimeout: s.opts.HeaderTimeout, // for the connection's first bytes
		ReadTimeout:       s.opts.BodyTimeout,   // for each request's body
		IdleTimeout:       s.opts.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(logWriter{s.log}, "", 0),
		ConnContext:       s.fromPeer,
	}
}

// peerKey is the context key of the server id of the replica that sent the
// call.
type peerKey struct{}

// fromPeer stores the id of the replica that opened the connection.
func (s *Server) fromPeer(ctx context.Context, c net.Conn) context.Context {
	if at := s.attached.Load(); at != nil && at.links != nil {
		ctx = context.WithValue(ctx, peerKey{}, at.links.Caller(c))
	}
	return ctx
}

// via returns the server id of the replica that sent the call; empty for a call
// on the API's port.
func (x *exchange) via() string {
	if !x.peer {
		return ""
	}
	id, _ := x.ctx().Value(peerKey{}).(string)
	return id
}

// vouched returns an error unless the replica that sent the call is a member:
// only members may vouch for callers. The error is no_master, so that the
// sender retries: this replica may not know a new member yet.
func (x *exchange) vouched() error {
	at := x.attached.Load()
	if at == nil || at.links == nil {
		return nil
	}
	if err := at.links.Member(x.via()); err != nil {
		return lockapi.Errorf(lockapi.CodeNoMaster, "the replica that forwarded the call is not known as a member here: %v", err)
	}
	return nil
}

// logWriter receives log lines of package http about broken connections.
type logWriter struct{ log zerolog.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.Debug().Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

// PeerHandler serves the API to other members. Their identity has been
// verified, and their calls are not forwarded again.
func (s *Server) PeerHandler() http.Handler {
	engine := s.engineOf(true, slices.Concat(routes, doorRoutes), errNoRoute)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.served.Enter(1) {
			s.tooManyServed(w)
			return
		}
		defer s.served.Leave(1)
		serve(engine, w, r)
	})
}

func (s *Server) tooManyServed(w http.ResponseWriter) {
	e := lockapi.TooMany("served-calls", int64(s.served.Most), int64(s.served.Most), "this replica already serves %d calls of other replicas, the most allowed; make fewer waiting calls at a time", s.served.Most)
	s.stamp(w.Header())
	w.Header()["Content-Type"] = typeProblem
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	if b, err := codec.EncodeProblem(e.Problem()); err == nil {
		defer b.Release()
		_, _ = w.Write(b.Bytes())
	}
}

// holdBody reserves memory for the body of another member's call until it has
// arrived completely; most bounds its length.
func (x *exchange) holdBody(most int64) (release func(), err error) {
	size := int(min(x.c.Request.ContentLength, most))
	if size < 0 {
		size = int(most) // the length is unknown
	}
	if !x.half.Enter(size) {
		return nil, lockapi.TooMany("half-sent-bytes", int64(x.half.Count()), int64(x.half.Most), "incomplete calls of other replicas already take %d bytes, the most allowed; try again", x.half.Most)
	}
	return func() { x.half.Leave(size) }, nil
}

// fewBytes is small enough not to be counted: a call takes as much anyway.
const fewBytes = 16 << 10

// holdReply reserves memory for a reply to another member until it has been
// sent, for which time is limited.
func (x *exchange) holdReply(size int) (release func(), err error) {
	if size <= fewBytes {
		return func() {}, nil
	}
	if !x.unread.Enter(size) {
		return nil, lockapi.TooMany("unread-bytes", int64(x.unread.Count()), int64(x.unread.Most), "unread replies to other replicas already take %d bytes, the most allowed; try again", x.unread.Most)
	}
	// If this is unsupported, the connection's own limit applies.
	_ = http.NewResponseController(x.c.Writer).SetWriteDeadline(time.Now().Add(x.opts.WriteTimeout))
	return func() { x.unread.Leave(size) }, nil
}
