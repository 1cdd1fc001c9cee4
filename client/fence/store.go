package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"sync"

	"github.com/stoutlock/stout/internal/backup"
)

// Store keeps the highest token of each resource. It is safe for concurrent
// use.
type Store interface {
	// Raise records a token, unless a higher one is recorded, and returns the
	// highest. It returns after the token is durable. After an error the token may
	// or may not be recorded.
	Raise(ctx context.Context, resource string, token uint64) (highest uint64, err error)
}

// Memory is a Store that forgets its tokens when the process ends: a late write
// is accepted after a restart, until the present holder has written. The zero
// value is empty.
type Memory struct {
	mu     sync.Mutex // guards tokens
	tokens map[string]uint64
}

// Raise implements Store.
func (m *Memory) Raise(_ context.Context, resource string, token uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tokens == nil {
		m.tokens = make(map[string]uint64)
	}
	m.tokens[resource] = max(m.tokens[resource], token)
	return m.tokens[resource], nil
}

// File is a Store in one file, which it replaces when a token rises: once for
// each new holder. It serves some thousands of resources. One process at a time
// may use the file.
type File struct {
	name string

	mu     sync.Mutex // guards tokens and the file
	tokens map[string]uint64
}

// OpenFile reads the file with that name, which need not exist.
func OpenFile(name string) (*File, error) {
	f := &File{name: name, tokens: make(map[string]uint64)}
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		if err = json.Unmarshal(content, &f.tokens); err == nil && f.tokens == nil {
			err = errors.New("it has no object")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("fence: the tokens in %s: %w; without them late writes pass: restore the file, or delete it when no earlier holder can write", name, err)
	}
	return f, nil
}

// Raise implements Store.
func (f *File) Raise(_ context.Context, resource string, token uint64) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if highest := f.tokens[resource]; highest >= token {
		return highest, nil
	}
	raised := maps.Clone(f.tokens)
	raised[resource] = token
	err := backup.Save(f.name, true, func(w io.Writer) error { return json.NewEncoder(w).Encode(raised) })
	if err != nil {
		return f.tokens[resource], fmt.Errorf("fence: record a token in %s: %w", f.name, err)
	}
	f.tokens = raised
	return token, nil
}
