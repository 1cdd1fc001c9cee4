// Package certmagicstout keeps the certificates of certmagic, and of Caddy, in
// files of a cell, and coordinates their renewal by locks:
//
//	storage, err := certmagicstout.New(cell, "/certs/")
//	certmagic.Default.Storage = storage
//
// The files have private keys: use TLS for the cell, and give read access below
// the directory only to the servers of the certificates. A value has at most
// lockapi.MaxFileBytes.
package certmagicstout

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/certmagic"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/contrib/internal/session"
	"github.com/stoutlock/stout/lockapi"
)

// Storage is a certmagic.Storage and a certmagic.TryLocker.
type Storage struct {
	c        *client.Client
	sessions *session.Opener
	dir      string

	mu    sync.Mutex                // guards holds
	holds map[string][]*client.Held // by lock, the oldest first
}

var (
	_ certmagic.Storage   = (*Storage)(nil)
	_ certmagic.TryLocker = (*Storage)(nil)
)

// New returns a storage below dir, which ends in "/".
func New(c *client.Client, dir string, opts ...client.SessionOption) (*Storage, error) {
	s := &Storage{c: c, sessions: session.New(c, opts...), dir: dir, holds: make(map[string][]*client.Held)}
	return s, lockapi.ValidatePrefix(dir)
}

// Close ends the storage's session. All its locks are free then.
func (s *Storage) Close(ctx context.Context) error { return s.sessions.Close(ctx) }

// file returns the path of a key's file.
func (s *Storage) file(key string) string { return s.dir + "files/" + strings.Trim(key, "/") }

// below returns the prefix of the files below a key.
func (s *Storage) below(key string) string { return strings.TrimSuffix(s.file(key), "/") + "/" }

// Store implements certmagic.Storage.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	by, err := s.sessions.Session(ctx) // which makes the change exactly once
	if err == nil {
		_, err = by.Put(ctx, s.file(key), value)
	}
	return err
}

// Load implements certmagic.Storage.
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	file, err := s.c.Get(ctx, s.file(key))
	return file.Content, absent(err)
}

// absent makes an unknown file fs.ErrNotExist.
func absent(err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// Delete implements certmagic.Storage.
func (s *Storage) Delete(ctx context.Context, key string) error {
	by, err := s.sessions.Session(ctx)
	if err == nil {
		_, err = by.Delete(ctx, s.file(key))
	}
	if err == nil {
		_, _, err = by.DeleteBelow(ctx, s.below(key))
	}
	return err
}

// Exists implements certmagic.Storage.
func (s *Storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// Stat implements certmagic.Storage.
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	file, err := s.c.Get(ctx, s.file(key))
	if err == nil {
		return certmagic.KeyInfo{Key: key, Modified: file.ModifiedAt, Size: int64(file.Size), IsTerminal: true}, nil
	}
	if errors.Is(err, client.ErrNotFound) {
		for _, below := range s.c.List(ctx, s.below(key)) {
			if below != nil {
				return certmagic.KeyInfo{}, below
			}
			return certmagic.KeyInfo{Key: key}, nil
		}
	}
	return certmagic.KeyInfo{}, absent(err)
}

// List implements certmagic.Storage. Like certmagic's FileStorage it lists
// directories, too.
func (s *Storage) List(ctx context.Context, dir string, recursive bool) ([]string, error) {
	keys, prefix := make(map[string]bool), s.below(dir)
	for file, err := range s.c.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		parts := strings.Split(strings.TrimPrefix(file.Path, prefix), "/")
		for i := range parts {
			if i == 0 || recursive {
				keys[path.Join(dir, path.Join(parts[:i+1]...))] = true
			}
		}
	}
	if len(keys) == 0 && !s.Exists(ctx, dir) {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	return slices.Sorted(maps.Keys(keys)), nil
}
