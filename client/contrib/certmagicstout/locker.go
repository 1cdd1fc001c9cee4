package certmagicstout

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
)

// lock returns the path of a lock, for any name.
func (s *Storage) lock(name string) string {
	return s.dir + "locks/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}

// Lock implements certmagic.Locker. It waits in the lock's queue until ctx ends.
func (s *Storage) Lock(ctx context.Context, name string) error {
	return s.acquire(ctx, name, (*client.Session).Lock)
}

// TryLock implements certmagic.TryLocker.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	err := s.acquire(ctx, name, (*client.Session).TryLock)
	if errors.Is(err, client.ErrLockHeld) || errors.Is(err, client.ErrLockDelayed) {
		return false, nil
	}
	return err == nil, err
}

func (s *Storage) acquire(ctx context.Context, name string, by func(*client.Session, context.Context, string, ...client.LockOption) (*client.Held, error)) error {
	session, err := s.sessions.Session(ctx)
	if err != nil {
		return err
	}
	held, err := by(session, ctx, s.lock(name))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[name] = append(s.holds[name], held)
	return nil
}

// patience bounds a release: certmagic unlocks without a deadline.
const patience = 10 * time.Second

// Unlock implements certmagic.Locker. It returns client.ErrLockLost or
// client.ErrSessionExpired if the lock was not held to the end. If a hold of
// this process was lost, and another caller has the lock now, the first Unlock
// ends the lost one.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	holds := s.holds[name]
	if len(holds) == 0 {
		s.mu.Unlock()
		return fmt.Errorf("certmagicstout: %q is not locked", name)
	}
	if s.holds[name] = holds[1:]; len(holds) == 1 {
		delete(s.holds, name)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return holds[0].Unlock(ctx)
}
