package watch

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// brokenStreams is a replica that sends revisions 1 to 5 and breaks off each stream
// after two of them. Its revisions up to lost are compacted.
type brokenStreams struct {
	lost uint64

	mu    sync.Mutex // guards asked
	asked []string   // start revisions of the requests
}

func (s *brokenStreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after := r.Header.Get(lockapi.HeaderLastEventID)
	stream := after != ""
	if !stream {
		after = r.URL.Query().Get("after")
	}
	s.mu.Lock()
	s.asked = append(s.asked, after)
	s.mu.Unlock()
	var n uint64
	_, _ = fmt.Sscan(after, &n)
	event := func(r uint64) string {
		return fmt.Sprintf(`{"revision":%d,"type":"master_changed","epoch":1,"master":"r1"}`, r)
	}
	compacted := fmt.Sprintf(`{"code":"compacted","oldest":%d,"revision":%d}`, s.lost, s.lost)
	switch {
	case n < s.lost && stream:
		fmt.Fprintf(w, "event: compacted\nid: %d\ndata: %s\n\n", s.lost, compacted)
	case n < s.lost:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, compacted)
	case n >= 5 && stream:
		fmt.Fprint(w, "event: bookmark\ndata: {\"revision\":6}\n\n")
	case n >= 5:
		fmt.Fprint(w, `{"events":[],"revision":6}`)
	case stream:
		fmt.Fprintf(w, "event: master_changed\nid: %d\ndata: %s\n\nevent: bookmark\ndata: {\"revision\":%d}\n\n", n+1, event(n+1), n+1)
		fmt.Fprintf(w, "event: master_changed\ndata: %s", event(n+2)) // breaks off in the middle
	default:
		fmt.Fprintf(w, `{"events":[%s],"revision":%d}`, event(n+1), n+1)
	}
}

// TestWatchersResume: after the end of a stream or a call, the watcher resumes
// behind the received events. Compacted events are recorded as missed.
func TestWatchersResume(t *testing.T) {
	for _, lost := range []uint64{0, 3} {
		for name, listen := range map[string]func(string) func(context.Context, uint64, *watcher) error{"stream": streamOf, "polls": pollsOf} {
			s := &brokenStreams{lost: lost}
			server := httptest.NewServer(s)
			w := &watcher{listen: listen(server.URL)}
			e := &Events{watchers: []*watcher{w}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var following sync.WaitGroup
			following.Go(func() { e.Follow(ctx) })
			err := e.Reach(ctx, 6)
			cancel()
			following.Wait()
			server.Close()
			seen := e.Received()[0]
			if err != nil || len(seen.Events) != 5-int(lost) || seen.Events[0].Revision != lost+1 || len(seen.Missed) != int(min(lost, 1)) {
				t.Errorf("%s, %d lost: seen %+v, %v, asked after %v", name, lost, seen, err, s.asked)
			}
		}
	}
}
