package recipe

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"sync"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Shards divides work into n shards over the members of a group at a directory.
// The shards are numbered from 0.
//
// One member, the leader, keeps the plan: which member serves which shard. It
// is the file plan, written under the lock of the same path. The members are
// files below members/. Each shard is a lock below shards/; the file at its path
// has the name of the member that serves it.
type Shards struct {
	dir string
	n   int
}

// MaxShards bounds the number of shards.
const MaxShards = 4096

// NewShards returns the n shards at dir, which ends in "/". All members must
// have the same n, and it cannot change: for another n use another directory,
// or delete the file plan while no member runs.
func NewShards(dir string, n int) (Shards, error) {
	if n < 1 || n > MaxShards {
		return Shards{}, lockapi.Invalid("n", "%d shards are not within 1..%d", n, MaxShards)
	}
	_, err := memberPath(dir, "any")
	return Shards{dir, n}, err
}

func (g Shards) members() string { return g.dir + "members/" }
func (g Shards) plan() string    { return g.dir + "plan" }
func (g Shards) shards() string  { return g.dir + "shards/" }

// shard returns the path of a shard's lock and file. The paths sort by number.
func (g Shards) shard(k int) string { return fmt.Sprintf("%s%04d", g.shards(), k) }

// For returns the shard of a key: always the same for the same n, in every
// process.
func (g Shards) For(key string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum64() % uint64(g.n))
}

// Serve makes this process a member of the group until ctx ends, and calls
// serve for each shard that the plan gives it. value is published with the
// member's name, for example its address. Members need distinct names. Serve
// opens a session, and another one when that ends.
//
// The context of serve ends when the shard moves to another member, with ctx,
// and as soon as the hold cannot be relied upon: always before another member
// can serve the shard. serve must return then. Its shard moves only after that,
// so it may finish what it has begun. Send held.Token to the resources that it
// changes. If serve returns earlier, it is called again a second later, with a
// new token, unless the shard has moved.
//
// Shards of a member that has left or died go to the members with the fewest
// shards at once. After that, the leader moves one shard at a time, from the
// member with the most to the one with the fewest, until the numbers differ by
// one at most. The next move waits until every shard is served as planned. A
// member that joins m others therefore causes at most n/(m+1) moves, and one
// that leaves causes none beside its own shards. This is the sticky assignment
// of Kafka (KIP-54) with its cooperative rebalancing (KIP-429).
//
// Serve returns the error with which the cell refuses a lock or the membership,
// for example client.ErrTooMany, or ctx's error. It returns
// client.ErrInvalidArgument if the group has another number of shards.
func (g Shards) Serve(ctx context.Context, c *client.Client, name string, value []byte, serve func(ctx context.Context, shard int, held *client.Held) error, opts ...client.SessionOption) error {
	if _, err := memberPath(g.members(), name); err != nil {
		return err
	}
	file, _, err := find(ctx, c, g.plan())
	if err != nil {
		return err
	}
	if _, err := g.parse(file); err != nil {
		return err
	}
	return inSessions(ctx, c, opts, func(s *client.Session) (bool, error) {
		m := shardServer{Shards: g, s: s, name: name, serve: serve}
		return failed(ctx, s, m.run(ctx, value))
	})
}

// shardServer is one session of Serve.
type shardServer struct {
	Shards
	s     *client.Session
	name  string
	serve func(context.Context, int, *client.Held) error
}

// run serves shards until ctx or the session ends, or the cell refuses. It
// returns after all calls of serve.
func (m *shardServer) run(ctx context.Context, value []byte) error {
	open, end := whileOpen(ctx, m.s)
	defer end()
	ctx, fail := context.WithCancelCause(open)
	var running sync.WaitGroup
	defer running.Wait()
	defer fail(nil)
	if err := Join(ctx, m.s, m.members(), m.name, value); err != nil {
		return err
	}
	running.Go(func() { m.lead(ctx) })
	stop := make(map[int]context.CancelFunc) // by shard
	for ctx.Err() == nil {
		for file, err := range present(ctx, m.s.Client(), m.plan()) {
			if err != nil {
				break // the shards that are served need no events
			}
			plan, err := m.parse(file)
			if err != nil {
				fail(err)
				break
			}
			for k, owner := range plan {
				switch cancel := stop[k]; {
				case owner == m.name && cancel == nil:
					var under context.Context
					under, stop[k] = context.WithCancel(ctx)
					running.Go(func() {
						if err := m.keep(under, k); err != nil {
							fail(err)
						}
					})
				case owner != m.name && cancel != nil:
					cancel()
					delete(stop, k)
				}
			}
		}
		pause(ctx, again)
	}
	return context.Cause(ctx)
}

// keep serves a shard until ctx ends. It returns the error with which the cell
// refuses the lock.
//
// A shard that leaves the plan and returns may have two calls of keep. The
// second waits for the lock until the first has released it.
func (m *shardServer) keep(ctx context.Context, k int) error {
	for ctx.Err() == nil {
		granted, tired := false, false
		var refused error
		err := m.s.Do(ctx, m.shard(k), func(under context.Context, held *client.Held) error {
			granted = true
			_, refused = m.s.Put(under, m.shard(k), []byte(m.name), client.Ephemeral(), client.While(held))
			if refused == nil {
				_ = m.serve(under, k, held)
			} else if under.Err() != nil || errors.Is(refused, client.ErrNotHeld) {
				refused = nil // the hold is over, try again
			}
			tired = under.Err() == nil
			return refused
		})
		switch {
		case ctx.Err() != nil:
		case !granted || refused != nil:
			return fmt.Errorf("recipe: shard %d: %w", k, err)
		case tired:
			pause(ctx, again)
		}
	}
	return nil
}

// lead keeps the plan whenever this member has the plan's lock. After an error
// another member may succeed, or this one later.
func (m *shardServer) lead(ctx context.Context) {
	for ctx.Err() == nil {
		_ = m.s.Do(ctx, m.plan(), m.direct)
		pause(ctx, again)
	}
}

// direct changes the plan as the members change, one step after another.
func (m *shardServer) direct(ctx context.Context, held *client.Held) error {
	v := newShardView(m.Shards)
	for change, err := range m.s.Client().Follow(ctx, m.dir, client.Contents()) {
		if err == nil {
			err = v.note(&change)
		}
		if err != nil {
			return err
		}
		if !v.ready(&change) {
			continue
		}
		next, changed := v.assigned.next(v.names(), v.owners)
		if !changed {
			continue
		}
		stat, err := m.s.Put(ctx, m.plan(), m.format(next), client.While(held))
		if err != nil {
			return err
		}
		v.assigned, v.planned = next, stat.Revision
	}
	return nil
}

// Owners yields the member that serves each shard, by the shard's number, and
// again after each change, without end. A shard that no member serves has an
// empty name. Between two members a shard is shown with the earlier one. Like
// all knowledge of a leader, this may be out of date when it arrives. An error
// is yielded last.
func (g Shards) Owners(ctx context.Context, c *client.Client) iter.Seq2[[]Member, error] {
	return func(yield func([]Member, error) bool) {
		v := newShardView(g)
		for change, err := range c.Follow(ctx, g.dir, client.Contents()) {
			if err == nil {
				err = v.note(&change)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if v.ready(&change) && !yield(v.served(), nil) {
				return
			}
		}
	}
}
