package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/master"
)

// follower is a Master that follows r1, with heartbeats while heartbeats is true.
type follower struct {
	knowing
	heartbeats *atomic.Bool
}

func (f follower) View() master.View {
	v := of(lockapi.Replica{ID: "r1"}, lockapi.Replica{ID: "r2"}, lockapi.Replica{ID: "r3"})()
	if v.Own = (lockapi.Replica{ID: "r2", LastContactMS: 20}); !f.heartbeats.Load() {
		v.Own.LastContactMS = 5000
	}
	return v
}

func (f follower) Locate(context.Context) (Location, error) { return f.Known(), nil }

// deadPath is a transport to other members that reaches r1 only at times.
type deadPath struct{ dead atomic.Bool }

func (d *deadPath) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Host == "r1" && d.dead.Load() {
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	body := fmt.Sprintf(`{"id":%q,"unreached":["r9"]}`, q.URL.Host)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// A replica with heartbeats from the master but no answers to its calls
// forwards none: the caller must try another replica at once. The replica
// reports the unreached member. Without heartbeats it looks for the next
// master.
func TestDeadPathToTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heartbeats, way := new(atomic.Bool), new(deadPath)
		heartbeats.Store(true)
		began := time.Now()
		s := New(Options{Master: follower{heartbeats: heartbeats}, Peers: way, Clock: func() time.Duration { return time.Since(began) }})
		var keeping sync.WaitGroup
		keeping.Go(s.keepContact)
		defer func() { close(s.stopping); keeping.Wait() }()

		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, lockapi.RouteSessions, nil)
		call := func() (tries int, took time.Duration, err error) {
			x := &exchange{Server: s, asserted: noAssertion, route: &route{}, c: &gin.Context{Request: request}, master: s.attached.Load().Master}
			began := time.Now()
			err = x.search(task{repeatable: true}, true, nil, func(Location) error {
				if tries++; !way.dead.Load() {
					return nil
				}
				time.Sleep(time.Second)
				return lockapi.Errorf(lockapi.CodeNoMaster, "the master cannot be reached")
			})
			return tries, time.Since(began), err
		}
		want := func(when, unreached string, forwarded bool) {
			t.Helper()
			if got := fmt.Sprint(s.others.Unreached()); got != unreached {
				t.Errorf("%s: unreached are %s", when, got)
			}
			if tries, took, err := call(); (tries > 0) != forwarded || !forwarded && (took > 0 || !errors.Is(err, lockapi.CodeNoMaster)) {
				t.Errorf("%s: %d tries, %v after %s", when, tries, err, took)
			}
		}
		time.Sleep(10*peers.Every + peers.Every/2)
		want("well", "[]", true)
		way.dead.Store(true)
		time.Sleep(peers.UnreachedAfter + 2*peers.Every)
		want("dead", "[r1]", false)
		heartbeats.Store(false)
		want("dead, and without heartbeats", "[r1]", true)
		heartbeats.Store(true)
		way.dead.Store(false)
		time.Sleep(2 * peers.Every)
		want("healed", "[]", true)

		cell := s.attached.Load().View().Cell
		s.others.Look(t.Context(), way, "r2", cell.Replicas)
		if got := fmt.Sprint(cell.Replicas[2].Unreached); got != "[r9]" {
			t.Errorf("r3 does not reach %s", got)
		}
	})
}
