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

// Client is one program's access to the cell: a pool of connections. It is safe
// for concurrent use.
type Client interface {
	// Open opens a session and keeps it alive until its Close.
	Open(ctx context.Context, ttl time.Duration) (Session, error)
	// Read makes one linearizable read of a lock.
	Read(ctx context.Context, path string) error
	// ReadFile makes one linearizable read of a file with its content.
	ReadFile(ctx context.Context, path string) error
	// Watch calls onChange for each change of a file after a revision, until ctx
	// ends or it fails.
	Watch(ctx context.Context, path string, after uint64, onChange func()) error
	// Close closes the idle connections.
	Close() error
}

// Session acquires locks, one at a time, and writes files. Through the SDK a
// write happens exactly once; by plain HTTP it has no key and so happens at
// most once.
type Session interface {
	// Lock waits for a lock until ctx ends.
	Lock(ctx context.Context, path string) (token uint64, err error)
	// TryLock acquires a lock or fails at once; errors.Is(err, ErrRefused) if
	// another session holds it.
	TryLock(ctx context.Context, path string) (token uint64, err error)
	// Unlock releases the lock that was acquired last.
	Unlock(ctx context.Context) error
	// WriteFile creates or overwrites a file.
	WriteFile(ctx context.Context, path string, content []byte) error
	// Swap writes a file if it has this revision; 0 means that the file must
	// not exist. It returns the current file: the one that it wrote or, with
	// ErrChanged, the one that another session wrote. Without a file, that is
	// the zero File.
	Swap(ctx context.Context, path string, revision uint64, content []byte) (File, error)
	// Transact writes several files in one transaction, each with the content,
	// if all files of present exist; otherwise the error is ErrAbsent.
	Transact(ctx context.Context, present, written []string, content []byte) error
	// Close ends the session in the cell.
	Close(ctx context.Context) error
}

// File is a file at one of its revisions.
type File struct {
	Revision uint64
	Content  []byte
}

// ErrChanged reports that a file does not have the named revision.
var ErrChanged = client.ErrPrecondition

// ErrAbsent reports that a file required by a transaction does not exist.
var ErrAbsent = errors.New("a required file does not exist")

// The ways to make calls.
const (
	SDK  = "sdk"
	HTTP = "http"
	Door = "door" // by plain HTTP, as Consul's clients do
)

// Way is the addresses and credentials to reach a cell.
type Way struct {
	URLs  []string          // base URLs of its replicas
	Doors map[string]string // base URLs of their doors for Consul's clients, by URL
	TLS   *tls.Config       // nil for plain HTTP
	Token string            // sent in calls; empty: none
}

// SDK makes a client of the Go package.
func (w Way) SDK() (*client.Client, error) {
	c := client.Config{URLs: w.URLs, TLS: w.TLS}
	if w.Token != "" {
		c.Token = func(context.Context) (string, error) { return w.Token, nil }
	}
	return c.New()
}

// NewClient makes a client of a cell.
func NewClient(via string, way Way) (Client, error) {
	switch via {
	case SDK:
		return newSDK(way)
	case HTTP:
		return NewRaw(way), nil
	case Door:
		return newDoor(way)
	}
	return nil, fmt.Errorf("unknown way to make calls %q; want %q, %q or %q", via, SDK, HTTP, Door)
}

// Clients makes n clients. Each represents a separate program with its own
// connections.
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

// OpenAll opens one session per client. On an error it closes the sessions that
// it opened.
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

// CloseAll closes the sessions that are not nil. A session that cannot be
// closed expires.
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
