package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/lockapi"
)

// command is one line of input.
type command struct {
	ID int    `json:"id"`
	Op string `json:"op"`
	As string `json:"as"`

	Cell    string `json:"cell"`
	Session string `json:"session"`
	Hold    string `json:"hold"`
	Watch   string `json:"watch"`

	URLs  []string `json:"urls"`
	CA    string   `json:"ca"`
	Cert  string   `json:"cert"`
	Key   string   `json:"key"`
	Token string   `json:"token"`

	Name      string       `json:"name"`
	TTLMS     int64        `json:"ttl_ms"`
	TimeoutMS int64        `json:"timeout_ms"`
	WaitMS    *int64       `json:"wait_ms"`
	Priority  int          `json:"priority"`
	Path      string       `json:"path"`
	With      []string     `json:"with"`
	Mode      lockapi.Mode `json:"mode"`
	Limit     int          `json:"limit"`

	Content    []byte `json:"content_base64"`
	IfRevision uint64 `json:"if_revision"`
	IfAbsent   bool   `json:"if_absent"`
	Ephemeral  bool   `json:"ephemeral"`
	While      string `json:"while"`
	Prefix     string `json:"prefix"`
	After      uint64 `json:"after"`

	then func() // follows the answer
}

// bounded returns the context of a command. A lock may wait for ever.
func (c *command) bounded() (context.Context, context.CancelFunc) {
	switch {
	case c.Op == "lock" || c.Op == "try_lock":
		return context.WithCancel(context.Background())
	case c.TimeoutMS == 0:
		c.TimeoutMS = 30_000
	}
	return context.WithTimeout(context.Background(), time.Duration(c.TimeoutMS)*time.Millisecond)
}

var operations = map[string]func(*driver, context.Context, *command) (any, error){
	"connect":        (*driver).connect,
	"open":           (*driver).open,
	"state":          (*driver).state,
	"close":          (*driver).close,
	"lock":           (*driver).lock,
	"try_lock":       (*driver).lock,
	"held":           (*driver).held,
	"resume":         (*driver).resume,
	"await_priority": (*driver).awaitPriority,
	"unlock":         (*driver).unlock,
	"put":            (*driver).put,
	"get":            (*driver).get,
	"delete":         (*driver).delete,
	"list":           (*driver).list,
	"watch":          (*driver).watch,
	"unwatch":        (*driver).unwatch,
}

func (d *driver) connect(_ context.Context, c *command) (any, error) {
	config := client.Config{URLs: c.URLs}
	if c.CA != "" {
		pool := x509.NewCertPool()
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, err
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", c.CA)
		}
		config.TLS = &tls.Config{RootCAs: pool}
	}
	if c.Cert != "" {
		own, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		config.TLS.Certificates = []tls.Certificate{own}
	}
	if c.Token != "" {
		config.Token = func(context.Context) (string, error) { return c.Token, nil }
	}
	made, err := config.New()
	if err != nil {
		return nil, err
	}
	add(d, d.cells, c.As, made)
	return nil, nil
}

func (d *driver) open(ctx context.Context, c *command) (any, error) {
	cell, err := find(d, d.cells, c.Cell)
	if err != nil {
		return nil, err
	}
	opts := []client.SessionOption{client.Name(c.Name)}
	if c.TTLMS != 0 {
		opts = append(opts, client.TTL(time.Duration(c.TTLMS)*time.Millisecond))
	}
	s, err := cell.NewSession(ctx, opts...)
	if err != nil {
		return nil, err
	}
	add(d, d.sessions, c.As, s)
	c.then = func() { d.reportStates(c.As, s) }
	return results{"session": s.ID(), "ttl_ms": s.TTL().Milliseconds()}, nil
}

// reportStates reports changes of a session's state until it is over.
func (d *driver) reportStates(name string, s *client.Session) {
	last := client.Safe
	for {
		changed, state := s.Changed(), s.State()
		switch {
		case errors.Is(s.Err(), client.ErrSessionClosed):
			return
		case state != last:
			d.write(results{"report": state.String(), "session": name})
			last = state
		}
		if state == client.Expired {
			return
		}
		<-changed
	}
}

func (d *driver) state(_ context.Context, c *command) (any, error) {
	s, err := find(d, d.sessions, c.Session)
	if err != nil {
		return nil, err
	}
	return results{"state": s.State().String(), "remaining_ms": float64(s.Remaining()) / float64(time.Millisecond)}, nil
}

func (d *driver) close(ctx context.Context, c *command) (any, error) {
	s, err := find(d, d.sessions, c.Session)
	if err != nil {
		return nil, err
	}
	return nil, s.Close(ctx)
}

func (d *driver) lock(ctx context.Context, c *command) (any, error) {
	s, err := find(d, d.sessions, c.Session)
	if err != nil {
		return nil, err
	}
	var opts []client.LockOption
	if c.Mode == lockapi.Shared {
		opts = append(opts, client.Limit(c.Limit))
	}
	if c.Priority > 0 {
		opts = append(opts, client.Priority(c.Priority))
	}
	if len(c.With) > 0 {
		opts = append(opts, client.With(c.With...))
	}
	lock := s.Lock
	switch {
	case c.Op == "try_lock":
		lock = s.TryLock
	case c.WaitMS != nil:
		opts = append(opts, client.Wait(time.Duration(*c.WaitMS)*time.Millisecond))
	}
	h, err := lock(ctx, c.Path, opts...)
	if err != nil {
		return nil, err
	}
	return d.acquired(c, h), nil
}

// acquired adds a hold and reports its loss.
func (d *driver) acquired(c *command, h *client.Held) any {
	add(d, d.holds, c.As, h)
	c.then = func() { d.reportLoss(c.As, h) }
	return results{"token": h.Token(), "sequencer": h.Sequencer(), "sequencers": h.Sequencers()}
}

// reportLoss reports the end of a hold, unless the program ended it.
func (d *driver) reportLoss(name string, h *client.Held) {
	<-h.Done()
	if err := h.Err(); !errors.Is(err, client.ErrUnlocked) && !errors.Is(err, client.ErrSessionClosed) {
		d.write(results{"report": "lost", "hold": name, "code": codeOf(err)})
	}
}

func (d *driver) held(_ context.Context, c *command) (any, error) {
	h, err := find(d, d.holds, c.Hold)
	if err != nil {
		return nil, err
	}
	return results{"held": h.Err() == nil}, nil
}

func (d *driver) resume(ctx context.Context, c *command) (any, error) {
	h, err := find(d, d.holds, c.Hold)
	if err != nil {
		return nil, err
	}
	if h, err = h.Resume(ctx); err != nil {
		return nil, err
	}
	return d.acquired(c, h), nil
}

func (d *driver) awaitPriority(ctx context.Context, c *command) (any, error) {
	h, err := find(d, d.holds, c.Hold)
	if err != nil {
		return nil, err
	}
	s, err := find(d, d.sessions, c.Session)
	if err != nil {
		return nil, err
	}
	return nil, recipe.AwaitPriority(ctx, s.Client(), h.Path(), c.Priority)
}

func (d *driver) unlock(ctx context.Context, c *command) (any, error) {
	h, err := find(d, d.holds, c.Hold)
	if err != nil {
		return nil, err
	}
	return nil, h.Unlock(ctx)
}

// files are the calls for files that a Client and a Session have in common.
type files interface {
	Put(ctx context.Context, path string, content []byte, opts ...client.WriteOption) (lockapi.FileStat, error)
	Delete(ctx context.Context, path string, opts ...client.WriteOption) (uint64, error)
}

// writer returns the session or client of a command that changes a file, and
// the options.
func (d *driver) writer(c *command) (to files, opts []client.WriteOption, err error) {
	if c.Session != "" {
		to, err = find(d, d.sessions, c.Session)
	} else {
		to, err = find(d, d.cells, c.Cell)
	}
	if c.IfRevision != 0 {
		opts = append(opts, client.IfRevision(c.IfRevision))
	}
	if c.IfAbsent {
		opts = append(opts, client.IfAbsent())
	}
	if c.Ephemeral {
		opts = append(opts, client.Ephemeral())
	}
	if c.While != "" {
		h, missing := find(d, d.holds, c.While)
		opts, err = append(opts, client.While(h)), errors.Join(err, missing)
	}
	return to, opts, err
}

func (d *driver) put(ctx context.Context, c *command) (any, error) {
	to, opts, err := d.writer(c)
	if err != nil {
		return nil, err
	}
	stat, err := to.Put(ctx, c.Path, c.Content, opts...)
	return results{"revision": stat.Revision, "generation": stat.Generation}, err
}

func (d *driver) get(ctx context.Context, c *command) (any, error) {
	cell, err := find(d, d.cells, c.Cell)
	if err != nil {
		return nil, err
	}
	file, err := cell.Get(ctx, c.Path)
	return results{"revision": file.Revision, "generation": file.Generation, "content_base64": file.Content}, err
}

func (d *driver) delete(ctx context.Context, c *command) (any, error) {
	to, opts, err := d.writer(c)
	if err != nil {
		return nil, err
	}
	revision, err := to.Delete(ctx, c.Path, opts...)
	return results{"deleted": revision != 0}, err
}

func (d *driver) list(ctx context.Context, c *command) (any, error) {
	cell, err := find(d, d.cells, c.Cell)
	if err != nil {
		return nil, err
	}
	found := []results{}
	for f, err := range cell.List(ctx, c.Prefix) {
		if err != nil {
			return nil, err
		}
		found = append(found, results{"path": f.Path, "revision": f.Revision})
	}
	return results{"files": found}, nil
}

func (d *driver) watch(_ context.Context, c *command) (any, error) {
	cell, err := find(d, d.cells, c.Cell)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	add(d, d.watches, c.As, cancel)
	c.then = func() { d.reportEvents(ctx, cell, c) }
	return nil, nil
}

// reportEvents reports events until ctx ends.
func (d *driver) reportEvents(ctx context.Context, cell *client.Client, c *command) {
	for event, err := range cell.Watch(ctx, c.After, client.OnPrefix(c.Prefix)) {
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.write(results{"report": "ended", "watch": c.As, "code": codeOf(err)})
		case event.Compacted != nil:
			d.write(results{"report": "compacted", "watch": c.As, "revision": event.Compacted.Revision})
		default:
			d.write(results{"report": "event", "watch": c.As, "revision": event.Revision, "type": event.Type, "path": event.Path})
		}
	}
}

func (d *driver) unwatch(_ context.Context, c *command) (any, error) {
	end, err := find(d, d.watches, c.Watch)
	if err != nil {
		return nil, err
	}
	end()
	return nil, nil
}
