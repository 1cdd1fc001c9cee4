package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// audience is a stand-in master's handler, in virtual time, and its watchers.
type audience struct {
	*standIn
	server *server.Server
}

func withAudience(t *testing.T, most int, test func(t *testing.T, a *audience)) {
	synctest.Test(t, func(t *testing.T) {
		a := &audience{standIn: newStandIn(t, "r1")}
		a.server = server.New(server.Options{Master: a.standIn, Registry: prometheus.NewRegistry(), MaxWatchers: most})
		a.setMaster(3, "r1", "http://r1")
		test(t, a)
	})
}

// listener reads a stream, perhaps slowly.
type listener struct {
	*httptest.ResponseRecorder
	mu    sync.Mutex // guards the following field
	stuck chan struct{}
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	stuck := l.stuck
	l.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	return l.ResponseRecorder.Write(p)
}

// listen starts a stream; over is closed when it has ended.
func (a *audience) listen(ctx context.Context, query string, headers ...string) (l *listener, over <-chan struct{}) {
	q := httptest.NewRequestWithContext(ctx, "GET", "/v1/events?"+query, nil)
	q.Host = "r1"
	q.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	ended := make(chan struct{})
	l = &listener{ResponseRecorder: httptest.NewRecorder()}
	go func() {
		defer close(ended)
		a.server.Handler().ServeHTTP(l, q)
	}()
	synctest.Wait()
	return l, ended
}

func (l *listener) names() (all []string) {
	for line := range strings.Lines(l.Body.String()) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "event: "); ok {
			all = append(all, name)
		}
	}
	return all
}

// TestIdleStreamsTellHowFarTheyAre: a bookmark comes at least every 10 s, with
// any filter.
func TestIdleStreamsTellHowFarTheyAre(t *testing.T) {
	withAudience(t, 0, func(t *testing.T, a *audience) {
		ctx, leave := context.WithCancel(t.Context())
		l, over := a.listen(ctx, "after=0&path=/nothing")
		time.Sleep(lockapi.MaxBookmarkMS * time.Millisecond * 6)
		synctest.Wait()
		if got := l.names(); len(got) < 6 {
			t.Errorf("in a minute it was told %q", got)
		}
		leave()
		<-over
	})
}

// TestSlowListenersKeepNobody: a watcher that does not read gets everything
// later, while the others get events at once.
func TestSlowListenersKeepNobody(t *testing.T) {
	withAudience(t, 0, func(t *testing.T, a *audience) {
		ctx, leave := context.WithCancel(t.Context())
		slow, slowOver := a.listen(ctx, "after=1")
		quick, quickOver := a.listen(ctx, "after=1")
		slow.mu.Lock()
		slow.stuck = make(chan struct{})
		slow.mu.Unlock()
		for range 300 {
			a.happened("/f")
		}
		synctest.Wait()
		if got := len(quick.names()); got != 300 {
			t.Errorf("the quick one was told %d events", got)
		}
		slow.mu.Lock()
		close(slow.stuck)
		slow.stuck = nil
		slow.mu.Unlock()
		synctest.Wait()
		if got := len(slow.names()); got != 300 {
			t.Errorf("the slow one was told %d events", got)
		}
		leave()
		<-slowOver
		<-quickOver
	})
}

// TestWatchersAreBounded: one watcher too many is refused until another leaves.
// Calls that do not wait are always answered.
func TestWatchersAreBounded(t *testing.T) {
	withAudience(t, 2, func(t *testing.T, a *audience) {
		ctx, leave := context.WithCancel(t.Context())
		_, firstOver := a.listen(ctx, "after=0")
		rest, end := context.WithCancel(t.Context())
		_, secondOver := a.listen(rest, "after=0")
		refused, over := a.listen(t.Context(), "after=0")
		<-over
		if refused.Code != http.StatusTooManyRequests || refused.Header().Get("Retry-After") == "" ||
			!strings.Contains(refused.Body.String(), `"quota":"max-watchers","limit":2,"used":2`) || !strings.Contains(refused.Body.String(), "quota max-watchers is used up: 2 calls wait") {
			t.Errorf("%d %s", refused.Code, refused.Body)
		}
		now := httptest.NewRecorder()
		q := httptest.NewRequest("GET", "/v1/events?after=0", nil)
		q.Host = "r1"
		if a.server.Handler().ServeHTTP(now, q); now.Code != http.StatusOK {
			t.Errorf("%d %s", now.Code, now.Body)
		}
		leave()
		<-firstOver
		third, thirdOver := a.listen(rest, "after=0")
		if third.Code != http.StatusOK {
			t.Errorf("%d %s", third.Code, third.Body)
		}
		end()
		<-secondOver
		<-thirdOver
	})
}

// TestStreamsEndWithTheServer: streams end regularly, and continue at another
// replica.
func TestStreamsEndWithTheServer(t *testing.T) {
	withAudience(t, 0, func(t *testing.T, a *audience) {
		_, over := a.listen(t.Context(), "after=0")
		a.server.Drain()
		<-over
	})
}
