package server

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/codec"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// front serves an API to clients: the API of Stout, or the door for Consul's
// clients.
type front struct {
	handler http.Handler
	*wire.Server
	spare *gate.Reserve
}

// newFront returns the front of some routes; otherwise handles all other paths.
// It calls prepare before a request is routed.
func (s *Server) newFront(all table, otherwise func(*exchange) error, maxBody func(*http.Request) int64, prepare func(*http.Request)) *front {
	handler := func(engine *gin.Engine) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			prepare(r)
			serve(engine, w, r)
		})
	}
	f := &front{handler: handler(s.engineOf(false, all, otherwise))}
	f.Server = s.newWire(f.handler, maxBody)
	spare := handler(s.engineOf(false, guests(all), errNoConnection))
	f.spare = gate.NewReserve(s.newWire(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		spare.ServeHTTP(w, r)
	}), maxBody))
	return f
}

func (s *Server) newWire(h http.Handler, maxBody func(*http.Request) int64) *wire.Server {
	w := &wire.Server{
		Handler:        h,
		TLS:            s.opts.TLS,
		HeaderTimeout:  s.opts.HeaderTimeout,
		BodyTimeout:    s.opts.BodyTimeout,
		WriteTimeout:   s.opts.WriteTimeout,
		IdleTimeout:    s.opts.IdleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		MaxBody:        maxBody,
		MaxUnreadBytes: maxUnreadBytes,
		MaxHalfBytes:   maxHalfBytes,
		Refuse:         s.refuse,
		Waits:          s.conns.Waits,
		Calls:          s.conns.Busy,
		Silent:         s.conns.Silent,
		Panicked: func(p any) {
			s.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("an HTTP handler panicked")
		},
	}
	s.wires = append(s.wires, w)
	return w
}

// guests returns the routes of spare connections: all but probes, metrics and the
// page's files need another call's place.
func guests(all table) table {
	all = slices.Clone(all)
	for i := range all {
		switch all[i].template {
		case lockapi.RouteLive, lockapi.RouteReady, lockapi.RouteMetrics, lockapi.RoutePage + "{file}":
		default:
			all[i].guest = true
		}
	}
	return all
}

func serve(engine *gin.Engine, w http.ResponseWriter, r *http.Request) {
	// The router matches RawPath if it is set. Setting it always makes the
	// router split each path as it was sent; the handler decodes it once.
	if r.URL.RawPath == "" {
		r.URL.RawPath = r.URL.EscapedPath()
	}
	engine.ServeHTTP(w, r)
}

// serve serves connections of l until Shutdown, when it returns nil.
func (f *front) serve(l net.Listener, conns *gate.Conns) error {
	err := f.Serve(conns.Listen(l, f.spare))
	if err == wire.ErrClosed {
		return nil
	}
	return err
}

// refuse returns the complete reply to an invalid request.
func (s *Server) refuse(status int, reason string) []byte {
	if status == http.StatusTooManyRequests {
		return s.canned(status, errCrowded())
	}
	if reason == "" {
		reason = "the request line or a header is malformed; check that each % in the URL precedes two hexadecimal digits"
	}
	return s.canned(status, lockapi.Invalid("request", "%s", reason))
}

// canned returns a complete reply without a request. It is the connection's
// last reply.
func (s *Server) canned(status int, e *lockapi.Error) []byte {
	problem := e.Problem()
	problem.Status = status
	body, _ := codec.EncodeProblem(problem)
	defer body.Release()
	header := http.Header{}
	s.stamp(header)
	if s.anonymousRefusal() != nil { // the caller is unknown
		delete(header, lockapi.HeaderMaster)
		delete(header, lockapi.HeaderCell)
	}
	header["Cache-Control"], header["Vary"] = noStore, varyCaller
	header.Set("Connection", "close")
	header["Content-Type"] = typeProblem
	header.Set("Content-Length", fmt.Sprint(body.Len()))
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if retry := retryAfter(e); retry > 0 {
		header.Set("Retry-After", fmt.Sprint(retry))
	}
	var reply bytes.Buffer
	fmt.Fprintf(&reply, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = header.Write(&reply)
	reply.WriteString("\r\n")
	reply.Write(body.Bytes())
	s.metrics.count("other", "other", fromClient, status, 0)
	return reply.Bytes()
}
