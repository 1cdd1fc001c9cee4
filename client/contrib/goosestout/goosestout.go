// Package goosestout lets migrations of goose run on one machine at a time,
// under a lock of a cell. It works for databases without locks of their own:
//
//	locker, err := goosestout.New(cell, "/db/migrate")
//	defer locker.Close(ctx)
//	provider, err := goose.NewProvider(dialect, db, migrations, goose.WithSessionLocker(locker))
//
// If the lock is lost during the migrations, the locker closes their connection.
// The statement or transaction under way ends as it does; the next one fails. A
// migration in Go outside a transaction (RunDB) has other connections: it and
// the next such migration are not stopped.
package goosestout

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/contrib/internal/session"
	"github.com/stoutlock/stout/lockapi"
)

// Locker is a lock.SessionLocker.
type Locker struct {
	sessions *session.Opener
	path     string

	mu    sync.Mutex // guards holds
	holds map[*sql.Conn]*client.Held
}

var _ lock.SessionLocker = (*Locker)(nil)

// New returns a locker with the lock at path. All processes that migrate one
// database need the same path.
func New(c *client.Client, path string, opts ...client.SessionOption) (*Locker, error) {
	return &Locker{sessions: session.New(c, opts...), path: path, holds: make(map[*sql.Conn]*client.Held)}, lockapi.ValidatePath(path)
}

// SessionLock implements lock.SessionLocker. It waits in the lock's queue until
// ctx ends.
func (l *Locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	s, err := l.sessions.Session(ctx)
	if err != nil {
		return err
	}
	held, err := s.Lock(ctx, l.path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[conn] = held
	context.AfterFunc(held.Context(), func() {
		if !errors.Is(held.Err(), client.ErrUnlocked) {
			_ = conn.Close() // waits for the transaction under way
		}
	})
	return nil
}

// patience bounds the release: goose unlocks without a deadline.
const patience = 10 * time.Second

var errNotLocked = errors.New("goosestout: the connection has no lock")

// SessionUnlock implements lock.SessionLocker. It returns client.ErrLockLost or
// client.ErrSessionExpired if the lock was not held to the end.
func (l *Locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	l.mu.Lock()
	held := l.holds[conn]
	delete(l.holds, conn)
	l.mu.Unlock()
	if held == nil {
		return errNotLocked
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return held.Unlock(ctx)
}

// Close ends the locker's session. All its locks are free then.
func (l *Locker) Close(ctx context.Context) error { return l.sessions.Close(ctx) }
