package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// gates are the proxies between one client and the replicas of a cell, one for
// each replica. They replace the replicas' URLs in answers by their own, so
// that a client never goes around them. They record each request.
type gates struct {
	list []*gate
	http *http.Transport

	mu       sync.Mutex // guards the following
	real     []string   // URLs of the replicas, by gate.number
	requests []*request
	rules    []func(*request) *fault
	grown    chan struct{} // closed and replaced when a request is recorded or answered
}

// gate is the proxy of one replica.
type gate struct {
	all    *gates
	number int
	server *httptest.Server

	mu  sync.Mutex    // guards cut
	cut chan struct{} // nil unless cut; closed when healed
}

// request is one request at a gate. The fields after body are set when it was
// answered; answers guards them.
type request struct {
	gate    int
	arrived time.Time
	method  string
	path    string // decoded
	query   map[string][]string
	header  http.Header
	body    []byte

	status   int // 0 without an answer
	answer   []byte
	answered time.Time
}

// fault is what a gate does to a request. The zero fault does nothing.
type fault struct {
	refuse bool                // breaks the connection instead of forwarding
	silent bool                // neither forwards nor answers
	until  <-chan struct{}     // forwards late, even if the client has left
	lose   bool                // executes, then breaks the connection instead of answering
	late   time.Duration       // delays the answer
	body   func([]byte) []byte // changes the request
	to     string              // base URL of another server
	reply  func(http.ResponseWriter)
	modify func(*http.Response, []byte) []byte // changes the answer
	lines  func(line string) []string          // changes each line of a stream
}

// newGates makes gates before the replicas of a cell.
func newGates(t testing.TB, c *cell.Cell) *gates {
	g := &gates{real: c.URLs(), http: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}, grown: make(chan struct{})}
	for i := range g.real {
		g.list = append(g.list, newGate(t, g, i))
	}
	t.Cleanup(g.http.CloseIdleConnections)
	return g
}

func newGate(t testing.TB, all *gates, number int) *gate {
	one := &gate{all: all, number: number}
	one.server = httptest.NewUnstartedServer(one)
	one.server.Config.ErrorLog = quiet
	one.server.Start()
	t.Cleanup(func() {
		one.heal()
		one.server.CloseClientConnections()
		one.server.Close()
	})
	return one
}

// quiet drops what a server logs of broken connections.
var quiet = log.New(io.Discard, "", 0)

func (g *gate) url() string { return g.server.URL }

// urls returns the URLs of the gates.
func (g *gates) urls() (out []string) {
	for _, one := range g.list {
		out = append(out, one.url())
	}
	return out
}

// on adds a rule: what it returns is done to a request. The latest rule that
// returns a fault counts. The returned function removes it.
func (g *gates) on(rule func(*request) *fault) (remove func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := len(g.rules)
	g.rules = append(g.rules, rule)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.rules[at] = nil
	}
}

// once makes a rule that applies to the first request that matches.
func once(matches func(*request) bool, f *fault) func(*request) *fault {
	var done sync.Once
	return func(q *request) (out *fault) {
		if matches(q) {
			done.Do(func() { out = f })
		}
		return out
	}
}

// always makes a rule for all requests that match.
func always(matches func(*request) bool, f *fault) func(*request) *fault {
	return func(q *request) *fault {
		if matches(q) {
			return f
		}
		return nil
	}
}

// cut makes all gates silent until heal: nothing passes, in either direction.
func (g *gates) cut() {
	for _, one := range g.list {
		one.mute()
	}
}

// isCut reports whether the gates are cut.
func (g *gates) isCut() bool {
	one := g.list[0]
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.cut != nil
}

// breakConnections breaks the client's connections.
func (g *gates) breakConnections() {
	for _, one := range g.list {
		one.server.CloseClientConnections()
	}
}

func (g *gates) heal() {
	for _, one := range g.list {
		one.heal()
	}
}

func (g *gate) mute() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut == nil {
		g.cut = make(chan struct{})
	}
}

// heal ends a cut. Connections that lost something are broken.
func (g *gate) heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut != nil {
		close(g.cut)
		g.cut = nil
	}
}

// pass returns at once unless the gate is cut; then it waits for the end of the
// cut or of the connection, which it breaks.
func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	cut := g.cut
	g.mu.Unlock()
	if cut == nil {
		return
	}
	select {
	case <-cut:
	case <-ctx.Done():
	}
	panic(http.ErrAbortHandler)
}

// find returns the recorded requests that match.
func (g *gates) find(matches func(*request) bool) (out []request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range g.requests {
		if matches(q) {
			out = append(out, *q)
		}
	}
	return out
}

// record records a request and returns what to do to it.
func (g *gates) record(q *request) (do fault, real string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, q)
	g.grow()
	for _, rule := range g.rules {
		if rule == nil {
			continue
		}
		if f := rule(q); f != nil {
			do = *f
		}
	}
	return do, g.real[q.gate]
}

// grow announces a change of the record. mu is held.
func (g *gates) grow() {
	close(g.grown)
	g.grown = make(chan struct{})
}

// ServeHTTP passes one request on.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	q := &request{gate: g.number, arrived: time.Now(), method: r.Method, path: r.URL.Path, query: r.URL.Query(), header: r.Header, body: body}
	do, real := g.all.record(q)
	ctx := r.Context()
	switch {
	case do.refuse:
		panic(http.ErrAbortHandler)
	case do.silent:
		<-ctx.Done()
		panic(http.ErrAbortHandler)
	case do.reply != nil:
		do.reply(w)
		return
	case do.until != nil:
		<-do.until
		ctx = context.WithoutCancel(ctx)
	case do.lose:
		ctx = context.WithoutCancel(ctx)
	}
	g.pass(ctx)
	if do.body != nil {
		body = do.body(body)
	}
	if do.to != "" {
		real = do.to
	}
	forward, err := http.NewRequestWithContext(ctx, r.Method, real+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	forward.Header = r.Header.Clone()
	resp, err := g.all.http.RoundTrip(forward)
	if err != nil {
		panic(http.ErrAbortHandler) // the replica is gone, and so is the gate
	}
	defer resp.Body.Close()
	if master := resp.Header.Get(lockapi.HeaderMaster); master != "" {
		resp.Header.Set(lockapi.HeaderMaster, g.all.replace(master))
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), lockapi.TypeEventStream) && resp.StatusCode == http.StatusOK {
		g.stream(w, r.Context(), resp, &do)
		return
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if kind := resp.Header.Get("Content-Type"); strings.HasPrefix(kind, "application/") {
		answer = []byte(g.all.replace(string(answer)))
	}
	if do.modify != nil {
		answer = do.modify(resp, answer)
	}
	g.all.answered(q, resp.StatusCode, answer)
	if do.lose {
		panic(http.ErrAbortHandler)
	}
	time.Sleep(do.late)
	g.pass(r.Context())
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer)
}

// answered records an answer before the client gets it.
func (g *gates) answered(q *request, status int, answer []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q.status, q.answer, q.answered = status, answer, time.Now()
	g.grow()
}

// replace replaces the replicas' URLs in a text by the gates' URLs.
func (g *gates) replace(text string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.list {
		text = strings.ReplaceAll(text, g.real[one.number], one.url())
	}
	return text
}

// stream passes a stream of events on, line by line.
func (g *gate) stream(w http.ResponseWriter, ctx context.Context, resp *http.Response, do *fault) {
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	flush := func() { _ = http.NewResponseController(w).Flush() }
	flush()
	buffer := make([]byte, 64<<10)
	rest := ""
	for {
		n, err := resp.Body.Read(buffer)
		g.pass(ctx)
		rest += string(buffer[:n])
		for {
			line, after, whole := strings.Cut(rest, "\n")
			if !whole {
				break
			}
			rest = after
			lines := []string{g.all.replace(line)}
			if do.lines != nil {
				lines = do.lines(lines[0])
			}
			for _, l := range lines {
				_, _ = io.WriteString(w, l+"\n")
			}
		}
		flush()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// is matches requests of a method at paths with the given prefix.
func is(method, prefix string) func(*request) bool {
	return func(q *request) bool { return q.method == method && strings.HasPrefix(q.path, prefix) }
}

// isKeepalive matches keepalives.
func isKeepalive(q *request) bool {
	return q.method == http.MethodPost && strings.HasSuffix(q.path, "/keepalive")
}

func isOpening(q *request) bool {
	return q.method == http.MethodPost && q.path == lockapi.RouteSessions
}

// field returns a field of a JSON object, as its kind in JSON; nil without it.
func field(object []byte, name string) any {
	var fields map[string]any
	_ = json.Unmarshal(object, &fields)
	return fields[name]
}

// number is field for a number; 0 without it.
func number(object []byte, name string) float64 {
	n, _ := field(object, name).(float64)
	return n
}

// changed returns an object with other values of some fields.
func changed(object []byte, fields map[string]any) []byte {
	all := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	_ = decoder.Decode(&all)
	for name, value := range fields {
		all[name] = value
	}
	out, _ := json.Marshal(all)
	return out
}
