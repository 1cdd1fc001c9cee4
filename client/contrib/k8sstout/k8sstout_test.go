package k8sstout_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/contrib/k8sstout"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

func newLock(t *testing.T, c *client.Client, identity string) *k8sstout.Lock {
	t.Helper()
	l, err := k8sstout.New(c, "/t/leader", identity)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestTokenAfterADeletion: a former leader that finds no record, and creates
// one, has a higher token than the leaders in between.
func TestTokenAfterADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := stouttest.New(t, stouttest.Options{}), t.Context()
		a, b := newLock(t, c.Client(), "a"), newLock(t, c.Client(), "b")
		for _, l := range []*k8sstout.Lock{a, b, a} {
			if _, _, err := l.Get(ctx); !apierrors.IsNotFound(err) || l.Token() != 0 {
				t.Errorf("%s has token %d without a record: %v", l.Identity(), l.Token(), err)
			}
			if err := l.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Client().Delete(ctx, l.Describe()); err != nil {
				t.Fatal(err)
			}
		}
		if a.Token() <= b.Token() {
			t.Errorf("token %d after %d", a.Token(), b.Token())
		}
	})
}

// TestRecord follows client-go's own test of LeaseLock: a record is read as it
// was written, and each refusal has the reason that the election expects.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := stouttest.New(t, stouttest.Options{}), t.Context()
		a, b := newLock(t, c.Client(), "a"), newLock(t, c.Client(), "b")
		if a.Identity() != "a" || a.Describe() != "/t/leader" {
			t.Errorf("%s at %s", a.Identity(), a.Describe())
		}
		if _, _, err := a.Get(ctx); !apierrors.IsNotFound(err) {
			t.Errorf("no record: %v", err)
		}
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15, LeaderTransitions: 3, PreferredHolder: "b"}
		if err := a.Update(ctx, record); !apierrors.IsConflict(err) {
			t.Errorf("an update of no record: %v", err)
		}
		if err := a.Create(ctx, record); err != nil {
			t.Fatal(err)
		}
		if err := b.Create(ctx, record); !apierrors.IsAlreadyExists(err) {
			t.Errorf("a second record: %v", err)
		}
		got, raw, err := b.Get(ctx)
		if err != nil || !reflect.DeepEqual(*got, record) || len(raw) == 0 {
			t.Errorf("%+v, %v", got, err)
		}
		first := a.Token()
		if first == 0 || b.Token() != 0 {
			t.Errorf("tokens %d of the leader and %d of another", first, b.Token())
		}
		if err := a.Update(ctx, record); err != nil || a.Token() != first {
			t.Errorf("a renewal: token %d, %v", a.Token(), err)
		}
		record.HolderIdentity = "b"
		if err := b.Update(ctx, record); !apierrors.IsConflict(err) {
			t.Errorf("an update of an old record: %v", err)
		}
		if err := b.Update(ctx, record); !apierrors.IsConflict(err) {
			t.Errorf("and again, without reading: %v", err)
		}
		if _, _, err := b.Get(ctx); err != nil {
			t.Fatal(err)
		}
		if err := b.Update(ctx, record); err != nil || b.Token() <= first {
			t.Errorf("token %d after %d, %v", b.Token(), first, err)
		}
		if _, _, err := a.Get(ctx); err != nil || a.Token() != 0 {
			t.Errorf("the former leader has token %d, %v", a.Token(), err)
		}
		if _, err := c.Client().Put(ctx, "/t/leader", []byte("not a record")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Get(ctx); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("another file: %v", err)
		}
	})
}

// candidates run client-go's election.
type candidates struct {
	t      *testing.T
	c      *stouttest.Cell
	mu     sync.Mutex // guards what follows
	leader string
	token  uint64
}

func (e *candidates) run(ctx context.Context, name string) (*client.Client, <-chan struct{}) {
	m := e.c.Client()
	l := newLock(e.t, m, name)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				e.mu.Lock()
				defer e.mu.Unlock()
				if e.leader != "" || l.Token() <= e.token {
					e.t.Errorf("%s leads with token %d, beside %s with %d", name, l.Token(), e.leader, e.token)
				}
				e.leader, e.token = name, l.Token()
			},
			OnStoppedLeading: func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				if e.leader == name {
					e.leader = ""
				}
			},
		},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	return m, ended
}

// await waits until a candidate other than before leads, and returns its name.
func (e *candidates) await(before string) string {
	e.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		e.mu.Lock()
		leader := e.leader
		e.mu.Unlock()
		if leader != "" && leader != before {
			return leader
		}
	}
	e.t.Fatalf("no leader after %q", before)
	return ""
}

// TestElection: client-go's election survives changes of master. It elects
// another leader when the leader is cut off, and at once when it resigns.
func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &candidates{t: t, c: stouttest.New(t, stouttest.Options{})}
		type one struct {
			of     *client.Client
			resign context.CancelFunc
			ended  <-chan struct{}
		}
		all := make(map[string]one)
		for i := range 3 {
			ctx, resign := context.WithCancel(t.Context())
			name := fmt.Sprintf("c%d", i)
			of, ended := e.run(ctx, name)
			all[name] = one{of, resign, ended}
		}
		first := e.await("")
		e.c.KillMaster()
		e.c.IsolateMaster()
		time.Sleep(time.Minute)
		if again := e.await(""); again != first {
			t.Errorf("a change of master made %s the leader after %s", again, first)
		}
		e.c.Cut(all[first].of)
		second := e.await(first)
		<-all[first].ended
		began := time.Now()
		all[second].resign()
		<-all[second].ended
		third := e.await(second)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s leads %v after %s resigned", third, took, second)
		}
		e.c.Mend(all[first].of)
		for _, one := range all {
			one.resign()
			<-one.ended
		}
	})
}

// TestBadLock: bad names are refused.
func TestBadLock(t *testing.T) {
	for path, identity := range map[string]string{"leader": "a", "/t": ""} {
		if _, err := k8sstout.New(nil, path, identity); err == nil {
			t.Errorf("%q, %q: accepted", path, identity)
		}
	}
}
