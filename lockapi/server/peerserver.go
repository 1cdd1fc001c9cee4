package server

import (
	"context"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// serveCalls answers the calls of other members until Shutdown.
func (s *Server) serveCalls(l net.Listener) {
	if err := s.calls.Serve(l); err != http.ErrServerClosed {
		s.log.Error().Err(err).Msg("calls that other replicas forward are not served any more")
	}
}

// newCalls is the server of other members' calls.
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

// peerKey is that of a context's value: the server id of the replica that sends a
// call.
type peerKey struct{}

// fromPeer notes which replica has opened a connection.
func (s *Server) fromPeer(ctx context.Context, c net.Conn) context.Context {
	if at := s.attached.Load(); at != nil && at.links != nil {
		ctx = context.WithValue(ctx, peerKey{}, at.links.Caller(c))
	}
	return ctx
}

// via is the server id of the replica that has sent the call; empty for a call that
// came by the API's port.
func (x *exchange) via() string {
	if !x.peer {
		return ""
	}
	id, _ := x.ctx().Value(peerKey{}).(string)
	return id
}

// vouched is an error unless the replica that has sent the call is a member: only a
// member may say who calls. The error is no_master, so that the sender tries again:
// this replica may not know a new member yet.
func (x *exchange) vouched() error {
	at := x.attached.Load()
	if at == nil || at.links == nil {
		return nil
	}
	if err := at.links.Member(x.via()); err != nil {
		return lockapi.Errorf(lockapi.CodeNoMaster, "the call was forwarded by a replica that may not say here who calls: %v", err)
	}
	return nil
}

// logWriter takes the lines that package http writes of connections that break.
type logWriter struct{ log zerolog.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.Debug().Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

// PeerHandler is the API for calls that other members have sent here: who they
// are was made sure of, and none is sent on.
func (s *Server) PeerHandler() http.Handler {
	engine := s.newEngine(true)
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
	e := lockapi.Errorf(lockapi.CodeTooMany, "this replica serves %d calls of other replicas, which is all that it may; make fewer calls that wait at once", s.served.Most)
	s.stamp(w.Header())
	w.Header()["Content-Type"] = typeProblem
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	if b, err := encodeProblem(e.Problem()); err == nil {
		defer b.release()
		_, _ = w.Write(b.Bytes())
	}
}

// holdBody takes room for what has arrived of the body of another member's
// call, until it has arrived whole; most is the longest that there may be.
func (x *exchange) holdBody(most int64) (release func(), err error) {
	size := int(min(x.c.Request.ContentLength, most))
	if size < 0 {
		size = int(most) // it may be anything
	}
	if !x.half.Enter(size) {
		return nil, lockapi.Errorf(lockapi.CodeTooMany, "calls of other replicas that have arrived in part take %d bytes, which is all that they may", x.half.Most)
	}
	return func() { x.half.Leave(size) }, nil
}

// fewBytes are so few that they do not count: as much as a call takes anyway.
const fewBytes = 16 << 10

// holdReply takes room for a reply to another member until it has been taken,
// for which there is only so much time.
func (x *exchange) holdReply(size int) (release func(), err error) {
	if size <= fewBytes {
		return func() {}, nil
	}
	if !x.unread.Enter(size) {
		return nil, lockapi.Errorf(lockapi.CodeTooMany, "replies that other replicas have not read take %d bytes, which is all that they may", x.unread.Most)
	}
	// Where it is not known how, the connection's own bound is left.
	_ = http.NewResponseController(x.c.Writer).SetWriteDeadline(time.Now().Add(x.opts.WriteTimeout))
	return func() { x.unread.Leave(size) }, nil
}
