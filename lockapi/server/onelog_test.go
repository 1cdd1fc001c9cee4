package server_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// oneLog is the log of a cell of one, in memory: what a real master needs where a
// fake one knows too little.
type oneLog struct {
	began   time.Time
	url     string
	changed chan struct{}
	ring    *events.Ring

	mu    sync.Mutex
	state *state.State
}

const oneDirectory = "0123456789abcdef"

func (l *oneLog) Leading() (uint64, bool)       { return 1, true }
func (l *oneLog) Changed() <-chan struct{}      { return l.changed }
func (l *oneLog) Barrier(context.Context) error { return nil }
func (l *oneLog) Due() (state.Command, bool)    { return state.Command{}, false }
func (l *oneLog) Events() *events.Ring          { return l.ring }
func (l *oneLog) Leader() string                { return "r1" }
func (l *oneLog) CellID() string                { return "cell-1" }
func (l *oneLog) Directory() string             { return oneDirectory }
func (l *oneLog) URL(string) string             { return l.url }
func (l *oneLog) Health() cell.Health           { return cell.Health{Heard: true} }
func (l *oneLog) Vitals() cell.Vitals           { return cell.Vitals{} }

func (l *oneLog) PromisedBefore(uint64) time.Duration    { return -time.Hour }
func (l *oneLog) Promise() (string, time.Duration, bool) { return "", 0, false }
func (l *oneLog) Silence(time.Duration)                  {}
func (l *oneLog) Transfer(context.Context, string) error { return errors.New("there is nobody else") }
func (l *oneLog) Members() []cell.MemberStatus           { m, _ := l.Membership(); return m.Members }
func (l *oneLog) clock() time.Duration                   { return time.Since(l.began) }
func (l *oneLog) Submit(b state.Batch) func() (*state.Outcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, out := l.state.Apply(l.state.Index+1, 1, b)
	l.state = next
	l.ring.Append(out.Changes, next)
	l.ring.Tell()
	return func() (*state.Outcome, error) { return &out, nil }
}

func (l *oneLog) State() *state.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *oneLog) Membership() (cell.Membership, error) {
	return cell.Membership{Index: 1, Members: []cell.MemberStatus{
		{Member: cell.Member{ID: "r1", RaftAddr: "127.0.0.1:1", APIURL: l.url}, Directory: oneDirectory, Voter: true}}}, nil
}

func (l *oneLog) ChangeMember(context.Context, uint64, cell.Change, cell.MemberStatus) error {
	return cell.ErrBusy
}

func (l *oneLog) Ask(context.Context, string) (admission.Card, error) {
	return admission.Card{ID: "r1", Directory: oneDirectory, CellID: "cell-1", Heard: true, Level: state.Level}, nil
}

// startReal serves a real master over a log in memory, until the test ends, and
// takes calls of others, too.
func startReal(t *testing.T, tune ...func(*server.Options)) (url string, s *server.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &oneLog{began: time.Now(), url: "http://" + l.Addr().String(), changed: make(chan struct{}), ring: events.New(1000, 1<<20, 0), state: state.New()}
	m := master.New(log, log, master.Options{Cell: "test", ID: "r1", Version: "v1", LeaseTerm: 2 * time.Second, Clock: log.clock, Logger: zerolog.Nop()})
	calls := newLinks(t, newFake("r1"))
	callPorts.Store(l.Addr().String(), calls.Calls().Addr().String())
	opts := server.Options{Master: m, Links: calls, Logger: zerolog.Nop(), AttemptEvery: time.Nanosecond}
	for _, f := range tune {
		f(&opts)
	}
	s = server.New(opts)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() {
		callPorts.Delete(l.Addr().String())
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx)
		_ = m.Close(ctx)
	})
	eventually(t, "an office", func() bool { return m.Known().Self })
	return log.url, s
}
