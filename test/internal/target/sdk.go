package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoutlock/stout/client"
)

// ErrRefused reports that another session holds the lock.
var ErrRefused = client.ErrLockHeld

type sdkClient struct{ c *client.Client }

func newSDK(way Way) (Client, error) {
	c, err := way.SDK()
	if err != nil {
		return nil, err
	}
	return sdkClient{c}, nil
}

func (c sdkClient) Open(ctx context.Context, ttl time.Duration) (Session, error) {
	s, err := c.c.NewSession(ctx, client.TTL(ttl), client.Name("bench"))
	if err != nil {
		return nil, err
	}
	return &sdkSession{s: s}, nil
}

func (c sdkClient) Read(ctx context.Context, path string) error {
	_, err := c.c.ReadLock(ctx, path)
	return err
}

func (c sdkClient) Close() error { return c.c.Close() }

type sdkSession struct {
	s    *client.Session
	held *client.Held
}

func (s *sdkSession) Lock(ctx context.Context, path string) (uint64, error) {
	return s.took(s.s.Lock(ctx, path))
}

func (s *sdkSession) TryLock(ctx context.Context, path string) (uint64, error) {
	return s.took(s.s.TryLock(ctx, path))
}

func (s *sdkSession) took(h *client.Held, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	s.held = h
	return h.Token(), nil
}

var errNothingHeld = errors.New("unlock without a lock")

func (s *sdkSession) Unlock(ctx context.Context) error {
	if s.held == nil {
		return errNothingHeld
	}
	err := s.held.Unlock(ctx)
	if err != nil {
		return fmt.Errorf("unlock %s: %w", s.held.Path(), err)
	}
	s.held = nil
	return nil
}

func (s *sdkSession) Close(ctx context.Context) error { return s.s.Close(ctx) }
