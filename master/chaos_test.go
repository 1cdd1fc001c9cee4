package master

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// chaos is a cell under faults with clients at work, all in virtual time. The
// test checks what the clients believe: by its own clock and the answers it
// got, at most one of them holds the lock.
type chaos struct {
	t       *testing.T
	c       *fakeCell
	work    context.Context
	clients []*contender

	mu   sync.Mutex
	rng  *rand.Rand
	told map[uint64]int // token → the client that received it
}

// contender is a client that keeps a session alive and acquires a lock again
// and again. It calls through a slow network, and uses a clock of its own.
type contender struct {
	*chaos
	id   int
	rate float64

	// Guarded by chaos.mu.
	session string
	until   time.Duration // of the session, on its own clock
	handle  string        // of the attempt under way
	holds   uint64        // token
	wins    int
	epoch   uint64 // from the last answer
}

const contenderTTL = 3 * time.Second

func TestChaos(t *testing.T) {
	for _, seed := range testrun.Sample(t, 2, 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			rate := func() float64 { return 1 + drift*(2*rng.Float64()-1) }
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				work, stop := context.WithCancel(t.Context())
				x := &chaos{t: t, c: c, work: work, rng: rng, told: map[uint64]int{}}
				var running sync.WaitGroup
				alive, die := context.WithCancel(t.Context())
				c.office("r1")
				for i := range 4 {
					k := &contender{chaos: x, id: i, rate: rate()}
					x.clients = append(x.clients, k)
				}
				for _, k := range x.clients {
					running.Go(func() { k.keepAlive(alive) })
					running.Go(k.contend)
				}
				running.Go(x.watch)
				x.faults(60)
				x.heal()
				stop()
				pass(orphanGrace + 10*time.Second)
				x.nothingLeft()
				die()
				running.Wait()
			}, rate(), rate(), rate())
		})
	}
}

// upTo is a random duration.
func (x *chaos) upTo(d time.Duration) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Duration(x.rng.Int64N(int64(d)))
}

func (x *chaos) chance(n int) bool { return x.upTo(time.Duration(n)) == 0 }

// faults cuts replicas off, lets others be elected, and hands mastership over.
func (x *chaos) faults(rounds int) {
	for range rounds {
		id := fmt.Sprintf("r%d", 1+x.upTo(3))
		switch x.upTo(6) {
		case 0:
			x.c.cutOff(id, true)
		case 1:
			x.c.cutOff(id, false)
		case 2:
			x.c.depose(id)
			x.c.campaign(id)
		case 3:
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_, _ = x.c.node(id).master.TransferMastership(ctx, &Caller{}, &lockapi.TransferMastership{})
			}()
		case 4:
			x.c.setDelay(time.Millisecond + x.upTo(100*time.Millisecond))
		default:
			x.c.campaign(id)
		}
		pass(x.upTo(4 * time.Second))
	}
}

// heal repairs everything and leaves one master in office.
func (x *chaos) heal() {
	x.c.setDelay(fakeDelay)
	for _, n := range x.c.nodes {
		x.c.cutOff(n.id, false)
	}
	pass(time.Second)
	for i := 0; ; i++ {
		for _, n := range x.c.nodes {
			if n.master.inOffice() != nil {
				return
			}
		}
		x.c.campaign(fmt.Sprintf("r%d", i%3+1))
		pass(5 * time.Second)
	}
}

// watch checks every millisecond what the clients believe.
func (x *chaos) watch() {
	for x.work.Err() == nil {
		pass(time.Millisecond)
		x.mu.Lock()
		var believe []int
		for _, k := range x.clients {
			if k.holds != 0 && k.clock() < k.until {
				believe = append(believe, k.id)
			}
		}
		x.mu.Unlock()
		if len(believe) > 1 {
			x.t.Errorf("after %v: clients %v all believe that they hold the lock", time.Since(x.c.began), believe)
		}
	}
}

// nothingLeft checks that no unknown grant is left once all clients have
// stopped.
func (x *chaos) nothingLeft() {
	for _, n := range x.c.nodes {
		o := n.master.inOffice()
		if o == nil {
			continue
		}
		expiring := func() bool { // a session's deadline ends before the session
			o.mu.Lock()
			defer o.mu.Unlock()
			return len(o.deadlines.heap) < len(o.sessions.byID)
		}
		for i := 0; i < 10 && expiring(); i++ {
			pass(100 * time.Millisecond)
		}
		o.mu.Lock()
		if len(o.waiters.byHandle) != 0 || len(o.delays.inForce) != 0 || len(o.deadlines.heap) != len(o.sessions.byID) {
			x.t.Errorf("remembered for ever: %d handles, %d delays, %d deadlines for %d sessions",
				len(o.waiters.byHandle), len(o.delays.inForce), len(o.deadlines.heap), len(o.sessions.byID))
		}
		o.mu.Unlock()
		for h := range n.State().Holds() {
			x.t.Errorf("an unknown hold: %+v", h)
		}
		for w := range n.State().Waits() {
			x.t.Errorf("a wait without a call: %+v", w)
		}
	}
	wins := 0
	for _, k := range x.clients {
		wins += k.wins
	}
	if wins < 10 {
		x.t.Errorf("only %d grants in all: the test shows little", wins)
	}
}

func (k *contender) clock() time.Duration {
	return time.Duration(float64(time.Since(k.c.began)) * k.rate)
}

// call sends a call to the master, over a slow network, until the answer is
// definite or ctx ends.
func (k *contender) call(ctx context.Context, f func(m *Master) error) error {
	for {
		err := error(lockapi.CodeNoMaster)
		for _, n := range k.c.nodes {
			if n.master.inOffice() != nil {
				pass(k.upTo(30 * time.Millisecond))
				err = f(n.master)
				pass(k.upTo(30 * time.Millisecond))
				break
			}
		}
		if !errors.Is(err, lockapi.CodeNoMaster) && !errors.Is(err, lockapi.CodeOutcomeUnknown) {
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		pass(20 * time.Millisecond)
	}
}

// keepAlive keeps a session, and opens another after it has ended.
func (k *contender) keepAlive(ctx context.Context) {
	for ctx.Err() == nil {
		k.mu.Lock()
		id, sent := k.session, k.clock()
		k.mu.Unlock()
		var got lockapi.Keepalive
		err := error(lockapi.CodeSessionNotFound)
		if id != "" {
			err = k.call(ctx, func(m *Master) (err error) {
				sent = k.clock()
				got, err = keepalive1(m, id, k.upTo(2*time.Second), 1<<50)
				return err
			})
		}
		switch {
		case err == nil:
			k.mu.Lock()
			k.until = max(k.until, sent+time.Duration(got.HeldMS)*time.Millisecond+contenderTTL)
			news := k.epoch != got.Epoch
			k.epoch = got.Epoch
			k.mu.Unlock()
			if news {
				k.reconcile(ctx, id)
			}
			if k.chance(15) { // the client stops calling
				pass(k.upTo(2 * contenderTTL))
			}
		case errors.Is(err, lockapi.CodeSessionNotFound):
			k.expired(id)
			k.open(ctx)
		}
	}
}

// reconcile does what the contract requires after a change of epoch: a call
// with an unknown outcome may have left a grant.
func (k *contender) reconcile(ctx context.Context, id string) {
	var s lockapi.SessionState
	_ = k.call(ctx, func(m *Master) (err error) {
		s, err = m.GetSession(ctx, &Read{}, &lockapi.GetSession{Session: id})
		return err
	})
	for _, h := range s.Holds {
		k.mu.Lock()
		unknown := h.Handle != k.handle
		k.mu.Unlock()
		if unknown {
			k.drop(id, h.Handle, h.Token)
		}
	}
}

// expired: the session is gone; no client may have counted on it any more.
func (k *contender) expired(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id != "" && k.clock() < k.until {
		k.t.Errorf("after %v: session of client %d ended %v before its lease", time.Since(k.c.began), k.id, k.until-k.clock())
	}
	k.session, k.holds = "", 0
}

func (k *contender) open(ctx context.Context) {
	key := fmt.Sprintf("%d-%d", k.id, k.clock())
	_ = k.call(ctx, func(m *Master) error {
		s, err := m.OpenSession(ctx, &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: contenderTTL.Milliseconds()}, Key: key})
		if err == nil {
			// The answer to a repeated call may name a session that
			// is older than the call: only a keepalive makes the
			// client sure of its lease.
			k.mu.Lock()
			k.session = s.ID
			k.mu.Unlock()
		}
		return err
	})
}

// contend acquires the lock again and again, in all possible ways.
func (k *contender) contend() {
	for n := 0; k.work.Err() == nil; n++ {
		pass(k.upTo(300 * time.Millisecond))
		k.mu.Lock()
		session := k.session
		k.handle = fmt.Sprintf("h%d", n)
		k.mu.Unlock()
		if session != "" {
			k.hold(session, k.handle)
		}
	}
}

// hold is one attempt, with a handle of its own.
func (k *contender) hold(session, handle string) {
	r := want(session, waiting(k.upTo(3*time.Second)))
	r.Handle, r.Queue = handle, k.chance(3)
	if k.chance(4) {
		r.LockDelayMS = k.upTo(2 * time.Second).Milliseconds()
	}
	for tries := 0; ; tries++ {
		var g lockapi.Grant
		err := k.call(context.Background(), func(m *Master) (err error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			if k.chance(3) {
				ctx, cancel = context.WithTimeout(context.Background(), k.upTo(2*time.Second)) // its connection breaks
			}
			defer cancel()
			g, err = m.AcquireLock(ctx, &Caller{}, &lockapi.AcquireLock{Path: "/a", LockRequest: r})
			return err
		})
		if err != nil {
			if r.Queue { // its queue position may be kept
				k.release(session, handle, 0)
			}
			return
		}
		if g.State == lockapi.StateHeld {
			k.granted(session, g)
			pass(k.upTo(800 * time.Millisecond))
			k.release(session, handle, g.Token)
			return
		}
		if tries > 3 {
			k.release(session, handle, 0)
			return
		}
		pass(k.upTo(time.Second))
	}
}

func (k *contender) granted(session string, g lockapi.Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other, known := k.told[g.Token]; known && other != k.id {
		k.t.Errorf("token %d was granted to clients %d and %d", g.Token, other, k.id)
	}
	k.told[g.Token] = k.id
	if session == k.session {
		k.holds = g.Token
		k.wins++
	}
}

func (k *contender) release(session, handle string, token uint64) {
	k.mu.Lock()
	k.holds = 0
	k.mu.Unlock()
	k.drop(session, handle, token)
}

func (k *contender) drop(session, handle string, token uint64) {
	_ = k.call(context.Background(), func(m *Master) error {
		_, err := m.ReleaseLock(context.Background(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: session, Handle: handle, Token: token})
		return err
	})
}
