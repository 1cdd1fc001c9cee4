package target

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// door makes calls as Consul's clients do, by plain HTTP at the cell's doors.
// Its locks and files are keys.
type door struct{ *Raw }

func newDoor(way Way) (Client, error) {
	doors, at := map[string]string{}, way
	at.URLs = nil
	for _, url := range way.URLs {
		if way.Doors[url] == "" {
			return nil, fmt.Errorf("%s has no door for Consul's clients", url)
		}
		doors[url] = way.Doors[url]
		at.URLs = append(at.URLs, doors[url])
	}
	c := NewRaw(at)
	c.doors = doors
	return door{c}, nil
}

// leastDoorTTL is the shortest ttl that Consul's sessions can have.
const leastDoorTTL = 10 * time.Second

func (c door) Open(ctx context.Context, ttl time.Duration) (Session, error) {
	s := &doorSession{c: c, ttl: max(ttl, leastDoorTTL), ended: make(chan struct{})}
	var opened struct{ ID string }
	req := map[string]string{"Name": "bench", "TTL": s.ttl.String(), "LockDelay": "0s"}
	if err := c.call(ctx, http.MethodPut, "/v1/session/create", nil, req, &opened); err != nil {
		return nil, err
	}
	s.id = opened.ID
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.renew(ctx)
	return s, nil
}

func (c door) Read(ctx context.Context, path string) error { return c.ReadFile(ctx, path) }

func (c door) ReadFile(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodGet, keyRoute+path, nil, nil, nil)
}

// Watch sends one blocking query after the other to one door.
func (c door) Watch(ctx context.Context, path string, after uint64, onChange func()) error {
	for index := after; ; {
		var found []key
		header, err := c.exchange(ctx, http.MethodGet, fmt.Sprintf("%s%s?index=%d", keyRoute, path, index), nil, nil, &found)
		if err != nil {
			return err
		}
		if index, err = strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64); err != nil {
			return err
		}
		if len(found) > 0 && found[0].ModifyIndex > after {
			after = found[0].ModifyIndex
			onChange()
		}
	}
}

const keyRoute = "/v1/kv"

// key is an answer to a read.
type key struct {
	ModifyIndex uint64
	Value       []byte
}

// doorSession is renewed at half of its ttl. The cell ends it at twice the ttl.
type doorSession struct {
	Session // the calls that works marked with atDoor do not make; nil
	c       door
	id      string
	ttl     time.Duration
	stop    context.CancelFunc
	ended   chan struct{} // closed when renew has ended
	path    string        // of the lock acquired last
}

func (s *doorSession) renew(ctx context.Context) {
	defer close(s.ended)
	for wait := s.ttl / 2; ; {
		cell.Pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		wait = s.ttl / 2
		if s.c.call(ctx, http.MethodPut, "/v1/session/renew/"+s.id, nil, nil, nil) != nil {
			wait = 20 * time.Millisecond
		}
	}
}

// TryLock returns no token, which Consul's clients do not have.
func (s *doorSession) TryLock(ctx context.Context, path string) (uint64, error) {
	s.path = path
	return 0, s.put(ctx, path+"?acquire="+s.id, nil, ErrRefused)
}

func (s *doorSession) Unlock(ctx context.Context) error {
	return s.put(ctx, s.path+"?release="+s.id, nil, lockapi.CodeNotHeld)
}

func (s *doorSession) WriteFile(ctx context.Context, path string, content []byte) error {
	return s.put(ctx, path, content, ErrChanged)
}

func (s *doorSession) Swap(ctx context.Context, path string, revision uint64, content []byte) (File, error) {
	refused := s.put(ctx, fmt.Sprintf("%s?cas=%d", path, revision), content, ErrChanged)
	var found []key
	if err := s.c.call(ctx, http.MethodGet, keyRoute+path, nil, nil, &found); err != nil || len(found) == 0 {
		return File{}, cmp.Or(err, refused)
	}
	return File{found[0].ModifyIndex, found[0].Value}, refused
}

// put writes a key. It returns the error refused if the answer is false.
func (s *doorSession) put(ctx context.Context, pathAndQuery string, content []byte, refused error) error {
	var done bool
	if err := s.c.call(ctx, http.MethodPut, keyRoute+pathAndQuery, nil, bytes.Clone(content), &done); err != nil {
		return err
	}
	if !done {
		return refused
	}
	return nil
}

func (s *doorSession) Close(ctx context.Context) error {
	s.stop()
	<-s.ended
	return s.c.call(ctx, http.MethodPut, "/v1/session/destroy/"+s.id, nil, nil, nil)
}
