package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

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
	"github.com/stoutlock/stout/lockapi/server/internal/stream"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// Options configure a Server. Master or Standby is required. A zero duration
// means the default in its comment.
type Options struct {
	// Master is the member that the server serves, and Links are its
	// connections to the others. Without a Master the server waits for Attach.
	Master Master
	Links  Links
	// Standby returns the state of the replica before Attach.
	Standby func() Standby
	Logger  zerolog.Logger
	// LogBlocked returns how long the logger's reader has read nothing; nil if
	// unknown.
	LogBlocked func() time.Duration
	// Registry receives the server's metrics, and /metrics shows it; nil
	// creates a new one. A registry serves one Server.
	Registry *prometheus.Registry
	// Metrics are additional metrics for /metrics.
	Metrics metric.Set
	// Checksum returns the latest checksum of this replica's state and its log
	// entry, for /metrics; false before the first one. It may be nil. It is not
	// called before Attach.
	Checksum func() (index uint64, sum []byte, ok bool)
	// Clock is the clock used for leases. The replica reports its readings to
	// other members; nil reports none. Drift bounds its deviation from true
	// time.
	Clock func() time.Duration
	Drift lease.Drift
	// Peers carries calls to the other members instead of Links. The host of a
	// URL is a member's name.
	Peers http.RoundTripper
	// MaxConnections bounds the API's open connections; 0 means no bound.
	// Connections from other members do not count.
	MaxConnections int
	// MaxWatchers bounds the calls that wait for events; 0 means no bound.
	MaxWatchers int
	// MaxAnonymousWatchers bounds such calls without a credential, per address,
	// while access control is on; 0 means no bound.
	MaxAnonymousWatchers int
	// TLS, if set, is used on every connection to the API. The API supports
	// only HTTP/1.1, so http/1.1 is the only ALPN protocol that it may have.
	TLS *tls.Config
	// JWTs verifies bearer tokens that are not tokens of the cell; nil accepts
	// no JWTs.
	JWTs *identity.JWTs
	// Certificates lets client certificates that TLS has verified identify
	// callers.
	Certificates bool
	// CertificatePrefix precedes the names in certificates, as JWTs.Prefix
	// precedes the names in JWTs.
	CertificatePrefix string
	// EnableSecret lets a caller on another host enable access control. If it
	// is empty, no such caller can.
	EnableSecret string
	// PublicMetrics opens /metrics to every caller, even while access control
	// is on.
	PublicMetrics bool
	// BreakGlass is the SHA-256 of a secret that gives the root's rights in
	// calls to this replica while it is the master; nil for none. It is the way
	// back after the loss of all tokens of the root.
	BreakGlass *[32]byte
	// Audit receives a line for each call that the audit log covers; nil for
	// none. AuditChanges adds a line for each change.
	Audit        *audit.Log
	AuditChanges bool
	// Tracer creates OpenTelemetry spans for calls and their stages; nil
	// creates none.
	Tracer trace.Tracer
	// Browsers defines which web pages may call. The server sets its Named.
	Browsers browser.Settings
	// DoorLoopback is Loopback for the door for Consul's clients.
	DoorLoopback bool

	// ForwardTimeout bounds the search for a master that accepts a call. The
	// call's own wait_ms bounds how long the master then holds it.
	ForwardTimeout time.Duration // 3 s
	// AnswerTimeout is how long a forwarded call may take in addition to its
	// wait_ms.
	AnswerTimeout time.Duration // 30 s
	CellTimeout   time.Duration // 1 s: for the master's view of the cell
	ProbeTimeout  time.Duration // 500 ms: for another replica's view of itself
	HeaderTimeout time.Duration // 5 s: for a request's line and headers, and for the TLS handshake
	BodyTimeout   time.Duration // 10 s: for a request's body
	WriteTimeout  time.Duration // 30 s: for sending each part of a reply
	IdleTimeout   time.Duration // 150 s: for the next request of a connection
	AttemptEvery  time.Duration // 100 ms: between answers to bad credentials from one address, after the first few
	ContactEvery  time.Duration // 1 s: between this replica's own polls of the others
}

// maxHeaderBytes bounds a request's line and headers. The longest path takes
// 3 KiB when percent-encoded whole.
const maxHeaderBytes = 32 << 10

// maxUnreadBytes bounds the memory of unread replies: some hundred pages of the
// longest list. maxHalfBytes bounds the memory of incomplete requests: a
// thousand of the longest.
const (
	maxUnreadBytes = 64 << 20
	maxHalfBytes   = 64 << 20
)

func (o Options) withDefaults() Options {
	o.ForwardTimeout = cmp.Or(o.ForwardTimeout, 3*time.Second)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 30*time.Second)
	o.CellTimeout = cmp.Or(o.CellTimeout, time.Second)
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, 500*time.Millisecond)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 5*time.Second)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 150*time.Second)
	o.AttemptEvery = cmp.Or(o.AttemptEvery, 100*time.Millisecond)
	o.ContactEvery = cmp.Or(o.ContactEvery, peers.Every)
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	return o
}

// Server serves Stout's HTTP API for one replica.
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
	// lists has a place for each list that may be built at a time: half as many
	// as processors, so that Raft and other calls always find one.
	lists    chan struct{}
	browsers *browser.Policy
	// doorBrowsers is the policy of the door, which has a listener of its own.
	doorBrowsers *browser.Policy
	api          *front
	door         *front               // for Consul's clients
	wires        []*wire.Server       // of both, and of their spare connections
	calls        *http.Server         // calls of other members
	served       gate.Capacity        // for calls of other members
	half         gate.Capacity        // for bytes of their incomplete requests
	unread       gate.Capacity        // for bytes of unread replies to them
	sent         gate.Capacity        // for calls sent to other members
	shared       peers.Reads[readKey] // of blocking queries
	watched      *peers.Watch         // of calls sent to other members
	watching     gate.Capacity        // for calls that wait for events, streams and others
	// strangers counts such calls without a credential while access control is
	// on.
	strangers gate.Counts[gate.Source]
	// watchers counts such calls of each principal while access control is on.
	watchers gate.Counts[string]
	backups  gate.Capacity // under way
	streams  *stream.Shared
	stopping chan struct{} // closed by Drain
	stopOnce sync.Once
}

// New returns a server that does not listen yet.
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

		watching: gate.Capacity{Most: int(boundOf(opts.MaxWatchers))},
		backups:  gate.Capacity{Most: mostBackups},

		conns:    gate.NewConns(opts.MaxConnections),
		attempts: gate.Attempts{Every: opts.AttemptEvery},
		lists:    make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),

		stopping: make(chan struct{}),
	}
	opts.Registry.MustRegister(export(opts.Metrics), export(s.load()))
	s.started, s.others = time.Now(), peers.New(opts.ProbeTimeout, opts.Clock)
	s.watched = peers.NewWatch(func() string { return s.attached.Load().Known().ID }, s.stopping)
	s.streams = stream.New(s.stopping, s.metrics.eventsTold.Add, maxUnreadBytes)
	s.opts.Browsers.Named = s.isMember // members added later, too
	s.browsers = browser.New(s.opts.Browsers)
	atDoor := s.opts.Browsers
	atDoor.Loopback = s.opts.DoorLoopback
	s.doorBrowsers = browser.New(atDoor)
	s.calls = s.newCalls()
	s.api = s.newFront(routes, errNoRoute, routes.maxBody, func(*http.Request) {})
	s.door = s.newFront(doorRoutes, errNoDoor, maxDoorBody, prepareForDoor)
	if opts.Master != nil {
		s.Attach(opts.Master, opts.Links)
	}
	return s
}

func (o *Options) version() string {
	if o.Master != nil {
		return o.Master.View().Own.Version
	}
	return o.Standby().Replica.Version
}

// Handler returns the API as an http.Handler. Deadlines, answers to malformed
// requests and the bound on connections need the connection itself, so they
// work only under Serve.
func (s *Server) Handler() http.Handler { return s.api.handler }

// Serve serves connections of l until Shutdown, when it returns nil. It closes
// l.
func (s *Server) Serve(l net.Listener) error {
	go s.keepContact()
	return s.api.serve(l, s.conns)
}

// Drain stops the forwarding of waiting calls, because their callers should not
// depend on a replica that is about to stop. It ends forwarded calls, streams
// and waits for events. It precedes the handover of mastership.
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

// Shutdown stops accepting calls, lets the calls under way end, and closes the
// server. Forwarded calls that wait end with outcome_unknown and may be sent
// again elsewhere. If ctx ends first, the remaining calls are cut off and the
// error of ctx is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	errs := make([]error, len(s.wires))
	var ended sync.WaitGroup
	for i, w := range s.wires {
		ended.Go(func() {
			if errs[i] = w.Shutdown(ctx); errs[i] != nil {
				_ = w.Close()
			}
		})
	}
	ended.Wait()
	// Connections of other members stay open, so this waits for their calls.
	err := errors.Join(append(errs, s.served.Emptied(ctx))...)
	_ = s.calls.Close()
	if at := s.attached.Load(); at != nil {
		if own, ok := at.way.(*peers.Transport); ok {
			own.Close()
		}
	}
	return err
}
