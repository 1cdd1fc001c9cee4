package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// fleet is the members of a group of shards, and the resource that each shard
// guards: it has the highest token, and fails the test when two members serve a
// shard.
type fleet struct {
	t      *testing.T
	c      *stouttest.Cell
	g      recipe.Shards
	seed   *client.Client
	stops  time.Duration // how long a member takes to stop a shard
	member map[string]*fleetMember

	mu     sync.Mutex // guards what follows
	shards []tenure   // the latest, by shard
	moves  int        // of shards, from one member to another
}

type fleetMember struct {
	c     *client.Client
	leave context.CancelFunc
	ended chan error
}

// tenure is one call of serve.
type tenure struct {
	member string
	token  uint64
	ctx    context.Context
	serves bool // has not returned
	forced bool // released by an operator: only the token protects the shard
}

func newFleet(t *testing.T, c *stouttest.Cell, n int) *fleet {
	t.Helper()
	g, err := recipe.NewShards("/t/", n)
	must(t, err)
	f := &fleet{t: t, c: c, g: g, seed: c.Client(), member: make(map[string]*fleetMember), shards: make([]tenure, n)}
	t.Cleanup(func() {
		for name := range f.member {
			f.leave(name)
		}
	})
	return f
}

func (f *fleet) join(name string) *fleetMember { return f.joinBy(name, f.c.Client()) }

func (f *fleet) joinBy(name string, c *client.Client) *fleetMember {
	ctx, leave := context.WithCancel(f.t.Context())
	m := &fleetMember{c: c, leave: leave, ended: make(chan error, 1)}
	f.member[name] = m
	go func() {
		m.ended <- f.g.Serve(ctx, m.c, name, []byte(name+"'s address"), func(ctx context.Context, shard int, held *client.Held) error {
			return f.serve(ctx, name, shard, held)
		}, client.TTL(ttl))
	}()
	return m
}

// leave ends a member and returns Serve's error.
func (f *fleet) leave(name string) error {
	m := f.member[name]
	delete(f.member, name)
	f.c.Mend(m.c)
	m.leave()
	return <-m.ended
}

// serve writes to the resource of a shard until ctx ends.
func (f *fleet) serve(ctx context.Context, name string, shard int, held *client.Held) error {
	f.begin(ctx, name, shard, held.Token())
	defer f.end(shard, held.Token())
	write := time.NewTicker(100 * time.Millisecond)
	defer write.Stop()
	for {
		select {
		case <-write.C:
			f.write(ctx, name, shard, held.Token())
		case <-ctx.Done():
			time.Sleep(f.stops)
			return ctx.Err()
		}
	}
}

func (f *fleet) begin(ctx context.Context, name string, shard int, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := &f.shards[shard]
	if token <= before.token {
		f.t.Errorf("shard %d: token %d after %d", shard, token, before.token)
	}
	if before.serves && before.ctx.Err() == nil && !before.forced {
		f.t.Errorf("shard %d: %s serves it with token %d, and %s with %d", shard, before.member, before.token, name, token)
	}
	if before.member != "" && before.member != name {
		f.moves++
	}
	*before = tenure{member: name, token: token, ctx: ctx, serves: true}
}

// write is refused if a higher token has been seen, as by a guarded resource.
func (f *fleet) write(ctx context.Context, name string, shard int, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seen := f.shards[shard]; token < seen.token && ctx.Err() == nil {
		f.t.Errorf("shard %d: %s writes with token %d, after %d of %s", shard, name, token, seen.token, seen.member)
	}
}

func (f *fleet) end(shard int, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shards[shard].token == token {
		f.shards[shard].serves = false
	}
}

// force releases a shard's lock, if it is held, as an operator does.
func (f *fleet) force(shard int) {
	f.mu.Lock()
	f.shards[shard].forced = true
	f.mu.Unlock()
	f.c.ReleaseByForce(fmt.Sprintf("/t/shards/%04d", shard))
}

// settled waits until the members serve all shards, in equal parts, and the
// plan no longer changes. It returns the number of moves since the last call.
func (f *fleet) settled(what string) (moves int) {
	f.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if f.balanced() {
			f.mu.Lock()
			defer f.mu.Unlock()
			moves, f.moves = f.moves, 0
			return moves
		}
		if time.Since(began) > step {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.t.Fatalf("%s: %+v", what, f.shards)
		}
	}
}

func (f *fleet) balanced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	load := make(map[string]int)
	for _, s := range f.shards {
		if !s.serves || s.ctx.Err() != nil {
			return false
		}
		load[s.member]++
	}
	for name := range load {
		if f.member[name] == nil {
			return false // it has left, and does not know that yet
		}
	}
	for name := range f.member {
		if load[name] < len(f.shards)/len(f.member) || load[name] > (len(f.shards)+len(f.member)-1)/len(f.member) {
			return false
		}
	}
	return true
}

// now returns the latest tenure of a shard.
func (f *fleet) now(shard int) tenure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shards[shard]
}

// TestShards: shards move one at a time to a member that joins, all at once
// from one that leaves or dies, and not when the master changes.
func TestShards(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		f := newFleet(t, c, 12)
		expect := func(what string, most int) {
			t.Helper()
			if moves := f.settled(what); moves != most {
				t.Errorf("%s: %d shards have moved, not %d", what, moves, most)
			}
		}
		f.join("a")
		expect("a is alone", 0)
		b := f.join("b")
		expect("b joins", 6)
		f.join("c")
		expect("c joins", 4)

		c.KillMaster()
		c.IsolateMaster()
		time.Sleep(2 * ttl)
		expect("the master changes", 0)

		c.Cut(b.c)
		time.Sleep(2 * ttl)
		for k := range 12 {
			if f.now(k).member == "b" {
				t.Errorf("shard %d stays with b, which was cut off", k)
			}
		}
		c.Mend(b.c)
		expect("b returns", 8) // the four above, and four back

		before := f.now(5)
		f.force(5)
		for began := time.Now(); f.now(5).token == before.token && time.Since(began) < step; {
			time.Sleep(10 * time.Millisecond)
		}
		if after := f.now(5); after.member != before.member || after.token <= before.token {
			t.Errorf("a shard released by force: %+v, then %+v", before, after)
		}
		expect("an operator releases a shard", 0)

		// The first member leads.
		if err := f.leave("a"); !errors.Is(err, context.Canceled) {
			t.Errorf("a has left: %v", err)
		}
		expect("a leaves", 4)
		must(t, second(f.seed.Delete(bounded(t), "/t/plan")))
		time.Sleep(time.Second)
		if file, err := f.seed.Get(bounded(t), "/t/plan"); err != nil {
			t.Errorf("a deleted plan: %s, %v", file.Content, err)
		}
		expect("the plan is deleted", 0)
		f.join("d")
		expect("d joins", 4)
	})
}

// TestShardMovesAfterItsServer: a shard moves when its server has returned, and
// no other shard moves before that.
func TestShardMovesAfterItsServer(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		f := newFleet(t, c, 4)
		f.stops = 10 * time.Second
		f.join("a")
		f.settled("a is alone")
		f.join("b")
		time.Sleep(f.stops - time.Second)
		stopping := 0
		for k := range 4 {
			s := f.now(k)
			if s.member != "a" {
				t.Errorf("%+v: b serves a shard that a has not stopped", s)
			}
			if s.ctx.Err() != nil {
				stopping++
			}
		}
		if stopping != 1 {
			t.Errorf("%d shards move at a time", stopping)
		}
		wantEqual(t, "moves", f.settled("b joins"), 2)
	})
}

// TestShardOfUnawareMember: a member that cannot read the plan keeps a shard
// that is to move, and no other member serves the shard.
func TestShardOfUnawareMember(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		f := newFleet(t, c, 2)
		m, meddler := newMeddled(c)
		f.joinBy("b", m)
		f.settled("b is alone")
		meddler.set(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == lockapi.RouteEvents || req.Method == http.MethodGet && req.URL.Path == lockapi.RouteFiles+"/t/plan" {
				return problem(req, lockapi.CodeInvalidArgument), nil
			}
			return nil, nil
		})
		c.Cut(m) // breaks the streams that are open
		c.Mend(m)
		f.join("a")
		time.Sleep(10 * time.Second)
		for k := range 2 {
			if s := f.now(k); s.member != "b" || !s.serves {
				t.Errorf("shard %d: %+v", k, s)
			}
		}
		meddler.set(nil)
		wantEqual(t, "moves", f.settled("b reads the plan"), 1)
	})
}

// TestShardsUnderFaults: in random schedules of faults no shard has two
// servers, and at the end all are served.
func TestShardsUnderFaults(t *testing.T) {
	for _, seed := range testrun.Sample(t, 2, 60) {
		inCell(t, func(t *testing.T, c *stouttest.Cell) {
			r := rand.New(rand.NewPCG(uint64(seed), 0))
			f := newFleet(t, c, 7)
			f.join("m0")
			var trace []string
			for step := range 25 {
				names := make([]string, 0, len(f.member))
				for i := range step + 1 {
					if name := fmt.Sprintf("m%d", i); f.member[name] != nil {
						names = append(names, name)
					}
				}
				one := names[r.IntN(len(names))]
				what := []string{"join", "leave", "cut", "lose", "deafen", "mend", "kill", "isolate", "force", "force", "wait", "wait"}[r.IntN(12)]
				trace = append(trace, what+" "+one)
				switch what {
				case "join":
					if len(names) < 5 {
						f.join(fmt.Sprintf("m%d", step+1))
					}
				case "leave":
					if len(names) > 1 {
						_ = f.leave(one)
					}
				case "cut":
					c.Cut(f.member[one].c)
				case "lose":
					c.Lose(f.member[one].c)
				case "deafen":
					c.LoseAnswers(f.member[one].c)
				case "mend":
					c.Mend(f.member[one].c)
				case "kill":
					c.KillMaster()
				case "isolate":
					c.IsolateMaster()
				case "force":
					if k := r.IntN(8); k < 7 {
						f.force(k)
					} else {
						c.ReleaseByForce("/t/plan")
					}
				}
				time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
			}
			for _, m := range f.member {
				c.Mend(m.c)
			}
			f.settled("all faults are over")
			if t.Failed() {
				t.Logf("seed %d: %s", seed, strings.Join(trace, ", "))
			}
		})
	}
}

// TestOwners: the owners are shown by name and address, and a shard without a
// server has none.
func TestOwners(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		f := newFleet(t, c, 2)
		seen := make(chan string, 100)
		ctx, cancel := context.WithCancel(bounded(t))
		defer cancel()
		go func() {
			for owners, err := range f.g.Owners(ctx, f.seed) {
				if err != nil {
					return
				}
				seen <- fmt.Sprintf("%s,%s", owners[0].Value, owners[1].Value)
			}
		}()
		receive(t, seen, "no owners", same(","))
		f.join("a")
		receive(t, seen, "a serves both", same("a's address,a's address"))
		f.join("b")
		receive(t, seen, "b serves one", same("a's address,b's address"))
		_ = f.leave("a")
		receive(t, seen, "b serves both", same("b's address,b's address"))
		_ = f.leave("b")
		receive(t, seen, "no owners", same(","))
		if a, b := f.g.For("key"), f.g.For("another key"); a != 0 || b != 1 {
			t.Errorf("the keys' shards are %d and %d", a, b)
		}
	})
}

// TestFailedShard: when the function for a shard returns, the same member
// serves the shard again.
func TestFailedShard(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, stop := context.WithCancel(bounded(t))
		g, err := recipe.NewShards("/t/", 1)
		must(t, err)
		var tokens []uint64
		began := time.Now()
		err = g.Serve(ctx, c.Client(), "a", nil, func(_ context.Context, _ int, held *client.Held) error {
			if tokens = append(tokens, held.Token()); len(tokens) == 3 {
				stop()
			}
			return errors.New("no work today")
		})
		if !errors.Is(err, context.Canceled) || len(tokens) != 3 || tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
			t.Errorf("tokens %v, %v", tokens, err)
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("three calls in %v", took)
		}
	})
}

// TestRefusedShards: Serve ends with the cell's refusal. A member with another
// number of shards does not join.
func TestRefusedShards(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		f := newFleet(t, c, 2)
		f.join("a")
		f.settled("a is alone")
		never := func(context.Context, int, *client.Held) error {
			t.Error("a refused member serves")
			return nil
		}
		other, err := recipe.NewShards("/t/", 3)
		must(t, err)
		if err := other.Serve(bounded(t), c.Client(), "b", nil, never); !errors.Is(err, client.ErrInvalidArgument) {
			t.Errorf("three shards instead of two: %v", err)
		}
		for _, err := range other.Owners(bounded(t), c.Client()) {
			if !errors.Is(err, client.ErrInvalidArgument) {
				t.Errorf("the owners of three shards instead of two: %v", err)
			}
		}
		if _, err := f.seed.Get(bounded(t), "/t/members/b"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("the refused member is in the group: %v", err)
		}
		m, meddler := newMeddled(c)
		meddler.set(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPut && strings.HasPrefix(req.URL.Path, lockapi.RouteLocks+"/t/shards/") {
				return problem(req, client.ErrTooMany), nil
			}
			return nil, nil
		})
		if err := f.g.Serve(bounded(t), m, "c", nil, never); !errors.Is(err, client.ErrTooMany) {
			t.Errorf("the locks are refused: %v", err)
		}
		f.settled("c has left")
		for _, bad := range []int{0, -1, recipe.MaxShards + 1} {
			if _, err := recipe.NewShards("/t/", bad); !errors.Is(err, client.ErrInvalidArgument) {
				t.Errorf("%d shards: %v", bad, err)
			}
		}
		if _, err := recipe.NewShards("/t", 1); !errors.Is(err, client.ErrInvalidArgument) {
			t.Errorf("a directory without a slash: %v", err)
		}
		if err := f.g.Serve(bounded(t), c.Client(), "x/y", nil, never); !errors.Is(err, client.ErrInvalidArgument) {
			t.Errorf("a name with a slash: %v", err)
		}
	})
}
