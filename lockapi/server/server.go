package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/internal/browser"
	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// Options configure a Server. Master or Standby is needed; a duration that is
// zero has the default named beside it.
type Options struct {
	// Master is the member that the server answers for, and Links are its
	// connections to the others; without a Master it answers for none before
	// Attach.
	Master Master
	Links  Links
	// Standby is what the replica says of itself before Attach.
	Standby func() Standby
	Logger  zerolog.Logger
	// LogBlocked is for how long the logger's reader has taken nothing; nil where that
	// is not known.
	LogBlocked func() time.Duration
	// Registry takes the server's metrics and is what /metrics shows; nil makes
	// a new one. A registry serves one Server.
	Registry *prometheus.Registry
	// Metrics are further ones, of what runs beside the server.
	Metrics metric.Set
	// Checksum is the latest sum of this replica's state and the log entry that it
	// is of, for /metrics; false before the first. Nil where there is none to
	// show. It is not called before Attach.
	Checksum func() (index uint64, sum []byte, ok bool)
	// Clock is the clock that leases are counted on, which other members are told
	// of, and Drift bounds how far it may run from true time. Nil is told to nobody.
	Clock func() time.Duration
	Drift lease.Drift
	// Peers carries calls to the other members, instead of Links: the host of a
	// URL is a member's name.
	Peers http.RoundTripper
	// MaxConnections bounds the connections that are open to the API at once; 0 is
	// no bound. Those of other members do not count.
	MaxConnections int
	// MaxWatchers bounds the calls that wait for events; 0 is no bound.
	MaxWatchers int
	// MaxAnonymousWatchers bounds those of callers without a credential, for each
	// address, while access is on; 0 is no bound.
	MaxAnonymousWatchers int
	// TLS, where it is set, is spoken on every connection to the API. The API has
	// HTTP/1.1 only, whatever its protocols of ALPN say.
	TLS *tls.Config
	// JWTs judges the bearer tokens that are none of the cell's; nil where no JWT is
	// taken.
	JWTs *identity.JWTs
	// Certificates says that those which clients show over TLS, and which TLS
	// verifies, prove who they are.
	Certificates bool
	// CertificatePrefix stands before the names in them, as JWTs.Prefix before those in
	// JWTs.
	CertificatePrefix string
	// EnableSecret lets a caller enable access that does not call from this host. While
	// it is empty none may.
	EnableSecret string
	// PublicMetrics opens /metrics to everybody, also while access is on.
	PublicMetrics bool
	// BreakGlass is the SHA-256 of a secret that is the root's in calls to this
	// replica itself while it is master; nil for none. It is the way back for who has
	// lost every token of the root.
	BreakGlass *[32]byte
	// Audit takes a line for each call that the audit is about; nil for none.
	// AuditChanges has it take one for each change.
	Audit        *audit.Log
	AuditChanges bool
	// Tracer makes spans of OpenTelemetry, of calls and of what becomes of them; nil
	// makes none.
	Tracer trace.Tracer
	// Browsers says who may call from a web page. Its Named is the server's own.
	Browsers browser.Settings

	// ForwardTimeout bounds the search for a master that takes a call. How long
	// the master then holds the call is bounded by the call's own wait_ms.
	ForwardTimeout time.Duration // 3 s
	// AnswerTimeout is what a forwarded call may take beyond its wait_ms.
	AnswerTimeout time.Duration // 30 s
	CellTimeout   time.Duration // 1 s: for the master's view of the cell
	ProbeTimeout  time.Duration // 500 ms: for another replica's view of itself
	HeaderTimeout time.Duration // 5 s: for a request's line and headers, and for the handshake of TLS
	BodyTimeout   time.Duration // 10 s: for a request's body
	WriteTimeout  time.Duration // 30 s: for each part of a reply to be taken
	IdleTimeout   time.Duration // 150 s: for the next request of a connection
	AttemptEvery  time.Duration // 100 ms: between answers to bad credentials of one address, after the first few
	ContactEvery  time.Duration // 1 s: between questions to the other replicas that no caller has asked for
}

// maxHeaderBytes bounds a request's line and headers. The longest path takes
// 3 KiB when percent-encoded whole.
const maxHeaderBytes = 32 << 10

// maxUnreadBytes bounds what the replies take that nobody reads: some hundred
// pages of the longest list. maxHalfBytes bounds what requests take that have
// arrived in part: a thousand of the longest.
const (
	maxUnreadBytes = 64 << 20
	maxHalfBytes   = 64 << 20
)

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.ForwardTimeout, 3 * time.Second},
		{&o.AnswerTimeout, 30 * time.Second},
		{&o.CellTimeout, time.Second},
		{&o.ProbeTimeout, 500 * time.Millisecond},
		{&o.HeaderTimeout, 5 * time.Second},
		{&o.BodyTimeout, 10 * time.Second},
		{&o.WriteTimeout, 30 * time.Second},
		{&o.IdleTimeout, 150 * time.Second},
		{&o.AttemptEvery, 100 * time.Millisecond},
		{&o.ContactEvery, peers.Every},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	return o
}

// Server answers Stout's HTTP API for one replica.
type Server struct {
	opts     Options
	attached atomic.Pointer[attached] // nil before Attach
	log      zerolog.Logger
	metrics  *metrics
	started  time.Time
	others   *peers.Others
	attempts gate.Attempts // with bad credentials
	conns    *gate.Conns
	stamps   atomic.Pointer[stamps]
	// lists has a place for each list that is made at a time: half of the
	// processors, so that however many ask for lists, Raft and the other calls
	// find one.
	lists    chan struct{}
	spare    *gate.Reserve
	browsers *browser.Policy
	engine   *gin.Engine
	http     *wire.Server
	calls    *http.Server  // those of other members
	served   gate.Capacity // for their calls
	half     gate.Capacity // for their bytes that have arrived in part
	unread   gate.Capacity // for the bytes of answers to them
	sent     gate.Capacity // for calls that this replica has sent to others
	watched  *peers.Watch  // the same
	watching gate.Capacity // for calls that wait for events, streams and others
	// strangers is room for those without a credential while access is on.
	strangers gate.Sources
	told      toldEvents
	backups   gate.Capacity // that are under way
	streamed  gate.Capacity // for the bytes of events that streams are about to send
	stopping  chan struct{} // closed by Drain
	stopOnce  sync.Once
}

// New makes a server; it does not listen yet.
func New(opts Options) *Server {
	opts = opts.withDefaults()
	s := &Server{
		opts:    opts,
		log:     opts.Logger,
		metrics: newMetrics(opts.Registry, opts.version()),

		served: gate.Capacity{Most: peers.MostServed},
		half:   gate.Capacity{Most: maxHalfBytes},
		unread: gate.Capacity{Most: maxUnreadBytes},
		sent:   gate.Capacity{Most: peers.MostForwarded},

		watching:  gate.Capacity{Most: orNoBound(opts.MaxWatchers)},
		strangers: gate.Sources{Most: orNoBound(opts.MaxAnonymousWatchers)},
		streamed:  gate.Capacity{Most: maxUnreadBytes},
		backups:   gate.Capacity{Most: mostBackups},

		conns:    gate.NewConns(opts.MaxConnections),
		attempts: gate.Attempts{Every: opts.AttemptEvery},
		lists:    make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),

		stopping: make(chan struct{}),
	}
	opts.Registry.MustRegister(export(opts.Metrics), export(s.load()))
	s.started, s.others = time.Now(), peers.New(opts.ProbeTimeout, opts.Clock)
	s.watched = peers.NewWatch(func() string { return s.attached.Load().Known().ID }, s.stopping)
	s.browsers = s.newPolicy()
	s.engine = s.newEngine(false)
	s.calls = s.newCalls()
	s.spare = s.newSpare()
	s.http = &wire.Server{
		Handler:        s.Handler(),
		TLS:            opts.TLS,
		HeaderTimeout:  opts.HeaderTimeout,
		BodyTimeout:    opts.BodyTimeout,
		WriteTimeout:   opts.WriteTimeout,
		IdleTimeout:    opts.IdleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		MaxBody:        routes.maxBody,
		MaxUnreadBytes: maxUnreadBytes,
		MaxHalfBytes:   maxHalfBytes,
		Refuse:         s.refuse,
		Waits:          s.conns.Waits,
		Calls:          s.conns.Busy,
		Panicked:       s.handlerPanicked,
	}
	if opts.Master != nil {
		s.Attach(opts.Master, opts.Links)
	}
	return s
}

func (s *Server) handlerPanicked(p any) {
	s.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("an HTTP handler panicked")
}

// version is the release that runs.
func (o *Options) version() string {
	if o.Master != nil {
		return o.Master.View().Own.Version
	}
	return o.Standby().Replica.Version
}

// Handler is the API as an http.Handler. What needs the connection itself (the
// deadlines of requests and replies, the answer to a request that cannot be
// parsed, the bound on connections) is there only under Serve.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(s.engine, w, r) })
}

func serve(engine *gin.Engine, w http.ResponseWriter, r *http.Request) {
	// The router matches RawPath if it is set. Set always, it makes the router split
	// each path as it was sent; the handler decodes it once.
	if r.URL.RawPath == "" {
		r.URL.RawPath = r.URL.EscapedPath()
	}
	engine.ServeHTTP(w, r)
}

// Serve answers connections of l until Shutdown, and returns nil then. It
// closes l.
func (s *Server) Serve(l net.Listener) error {
	go s.keepContact()
	err := s.http.Serve(s.conns.Listen(l, s.spare))
	if err == wire.ErrClosed {
		return nil
	}
	return err
}

// Drain makes the server pass on no more calls that wait: their callers do
// better elsewhere than with a replica that is about to stop. Those under way
// are let go. It is the step before mastership is handed over.
func (s *Server) Drain() {
	s.stopOnce.Do(func() { close(s.stopping) })
}

func (s *Server) isDraining() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// Shutdown stops taking calls, lets those under way end, and closes. Calls that
// wait at another replica are told that their outcome is unknown rather than
// kept: they may be sent again there. When ctx ends first, the calls that
// remain are cut off and the context's error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	_ = s.spare.Close()
	// The calls of other members stay on connections that stay: they are waited
	// for, not those.
	err = errors.Join(err, s.served.Emptied(ctx))
	_ = s.calls.Close()
	if at := s.attached.Load(); at != nil {
		if own, ok := at.way.(*peers.Transport); ok {
			own.Close()
		}
	}
	return err
}
