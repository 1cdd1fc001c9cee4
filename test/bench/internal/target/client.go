package target

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
)

// Client is what one program that uses the cell has: a pool of connections. It
// is safe for concurrent use.
type Client interface {
	// Open opens a session and keeps it alive until its Close.
	Open(ctx context.Context, ttl time.Duration) (Session, error)
	// Read is one linearizable read of a lock.
	Read(ctx context.Context, path string) error
	// ReadFile is one linearizable read of a file with its content.
	ReadFile(ctx context.Context, path string) error
	// Watch calls told for each change of a file after a revision, until ctx
	// ends or it fails.
	Watch(ctx context.Context, path string, after uint64, told func()) error
	// Close closes the idle connections.
	Close() error
}

// Session takes locks, one at a time, and writes files: through the SDK exactly
// once, by plain HTTP without a key and so once at most.
type Session interface {
	// Lock waits for a lock until ctx ends.
	Lock(ctx context.Context, path string) (token uint64, err error)
	// TryLock takes a lock or fails at once; errors.Is(err, ErrRefused) where
	// somebody else holds it.
	TryLock(ctx context.Context, path string) (token uint64, err error)
	// Unlock releases the lock that was taken last.
	Unlock(ctx context.Context) error
	// WriteFile overwrites a file, or makes it.
	WriteFile(ctx context.Context, path string, content []byte) error
	// Swap writes a file whose revision is this one, and 0 where there is none.
	// It returns what is there now: what it has written or, with ErrChanged,
	// what somebody else has, the zero File where nobody did.
	Swap(ctx context.Context, path string, revision uint64, content []byte) (File, error)
	// Transact writes several files at one moment, each with the content, if
	// those that are to be present are there; else the error is ErrAbsent.
	Transact(ctx context.Context, present, written []string, content []byte) error
	// Close ends the session in the cell.
	Close(ctx context.Context) error
}

// File is what a file was at one of its revisions.
type File struct {
	Revision uint64
	Content  []byte
}

// ErrChanged says that a file is not at the revision that was named.
var ErrChanged = client.ErrPrecondition

// ErrAbsent says that a file is not there of which a transaction wants that.
var ErrAbsent = errors.New("a file that is to be present is not there")

// The ways to make calls.
const (
	SDK  = "sdk"
	HTTP = "http"
)

// Way is how a cell is reached.
type Way struct {
	URLs  []string    // base URLs of its replicas
	TLS   *tls.Config // nil for plain HTTP
	Token string      // that calls carry; "" for none
}

// SDK makes a client of the Go package.
func (w Way) SDK() (*client.Client, error) {
	var options []client.Option
	if w.TLS != nil {
		options = append(options, client.WithTLS(w.TLS))
	}
	if w.Token != "" {
		options = append(options, client.WithToken(func(context.Context) (string, error) { return w.Token, nil }))
	}
	return client.NewWith(w.URLs, options...)
}

// NewClient makes a client of a cell.
func NewClient(via string, way Way) (Client, error) {
	switch via {
	case SDK:
		return newSDK(way)
	case HTTP:
		return NewRaw(way), nil
	}
	return nil, fmt.Errorf("the way to make calls is %q; it is %q or %q", via, SDK, HTTP)
}

// Clients makes n clients: each session is a program of its own, with connections
// of its own.
func Clients(via string, way Way, n int) ([]Client, error) {
	out := make([]Client, n)
	for i := range out {
		var err error
		if out[i], err = NewClient(via, way); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// opening bounds how many sessions are opened or closed at once.
const opening = 32

// OpenAll opens one session per client. On an error those that were opened are
// closed again.
func OpenAll(ctx context.Context, clients []Client, ttl time.Duration) ([]Session, error) {
	sessions := make([]Session, len(clients))
	err := Each(len(clients), func(i int) (err error) {
		sessions[i], err = clients[i].Open(ctx, ttl)
		return err
	})
	if err != nil {
		CloseAll(ctx, sessions)
		return nil, fmt.Errorf("open %d sessions: %w", len(clients), err)
	}
	return sessions, nil
}

// CloseAll closes the sessions that are not nil. What goes wrong is left to the
// sessions' ttl.
func CloseAll(ctx context.Context, sessions []Session) {
	_ = Each(len(sessions), func(i int) error {
		if sessions[i] != nil {
			_ = sessions[i].Close(ctx)
		}
		return nil
	})
}

// Each calls do for 0..n-1, several at once, until one fails.
func Each(n int, do func(int) error) error {
	var (
		wait  sync.WaitGroup
		once  sync.Once
		first error
		slots = make(chan struct{}, opening)
		stop  = make(chan struct{})
	)
	for i := range n {
		select {
		case slots <- struct{}{}:
		case <-stop:
		}
		select {
		case <-stop:
			continue
		default:
		}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := do(i); err != nil {
				once.Do(func() { first = err; close(stop) })
			}
		})
	}
	wait.Wait()
	return first
}
