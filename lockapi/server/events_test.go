package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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

// TestRefusedEventCalls: each refusal names the field.
func TestRefusedEventCalls(t *testing.T) {
	n := startMaster(t, nil)
	stream := []string{"Accept", "text/event-stream"}
	for _, c := range []struct {
		query, field string
		headers      []string
	}{
		{"after=-1", "after", nil}, {"after=", "after", nil}, {"after=9007199254740992", "after", nil},
		{"wait_ms=600001", "wait_ms", nil}, {"limit=0", "limit", nil}, {"limit=1001", "limit", nil},
		{"path=a", "path", nil}, {"prefix=a/", "prefix", nil}, {"path=/a&path=/b/", "path", nil}, {"types=", "types", nil}, {"types=file_created,", "types", nil},
		{"types=file_moved", "types", nil}, {"content=yes", "content", nil}, {"consistency=stale", "consistency", nil},
		{"wait_ms=1", "wait_ms", stream}, {"limit=1", "limit", stream},
		{"", "Last-Event-ID", append([]string{"Last-Event-ID", "x"}, stream...)},
		{"after=x", "after", append([]string{"Last-Event-ID", "1"}, stream...)},
	} {
		if e := call(t, "GET", n.url+"/v1/events?"+c.query, "", c.headers...).wantCode(t, lockapi.CodeInvalidArgument); e.Field != c.field {
			t.Errorf("%s: field %q, want %q", c.query, e.Field, c.field)
		}
	}
}

// TestEventsAsJSON: each replica answers from its own log; only a start at the
// present revision needs the master.
func TestEventsAsJSON(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, path := range []string{"/a", "/b", "/c"} {
		replica.happened(path)
	}
	for range 3 {
		master.happened("/a")
	}
	read := func(query string) (l lockapi.EventList) {
		t.Helper()
		got := call(t, "GET", replica.url+"/v1/events?"+query, "").wantStatus(t, 200)
		must(t, json.Unmarshal([]byte(got.body), &l))
		return l
	}
	if l := read("after=2"); len(l.Events) != 2 || l.Events[0].Path != "/b" || l.Revision != 4 {
		t.Errorf("%+v", l)
	}
	if l := read("after=0&limit=2"); len(l.Events) != 2 || l.Revision != 2 {
		t.Errorf("%+v", l)
	}
	master.wantNoCalls(t)
	if l := read(""); len(l.Events) != 0 || l.Revision != 4 {
		t.Errorf("from now on: %+v", l)
	}
	go replica.happened("/d")
	if l := read("after=4&wait_ms=60000"); len(l.Events) != 1 || l.Events[0].Path != "/d" {
		t.Errorf("waited: %+v", l)
	}
	replica.compact()
	if e := call(t, "GET", replica.url+"/v1/events?after=4", "").wantCode(t, lockapi.CodeCompacted); e.Oldest != 5 || e.Compacted.Revision != 1005 {
		t.Errorf("%+v", e)
	}
	call(t, "GET", replica.url+"/v1/events", "", "Stout-Forward", "never").wantCode(t, lockapi.CodeNotMaster)
	replica.setMaster(3, "", "")
	call(t, "GET", replica.url+"/v1/events", "").wantCode(t, lockapi.CodeNoMaster)
	read("after=1005")
	call(t, "GET", replica.url+"/v1/events?after=1006", "").wantCode(t, lockapi.CodeNoMaster)
}

// TestEventsAfterWhatIsNotReached: a revision of another cell or of a lost
// state is compacted. A replica that is behind its master refuses no revision
// of the master.
func TestEventsAfterWhatIsNotReached(t *testing.T) {
	master, replica := startPair(t, nil)
	for range 6 {
		master.happened("/a")
	}
	for range 3 {
		replica.happened("/a")
	}
	for _, n := range []*node{master, replica} {
		call(t, "GET", n.url+"/v1/events?after=7", "").wantBody(t, 200, `"revision":7`)
		e := call(t, "GET", n.url+"/v1/events?after=8", "").wantCode(t, lockapi.CodeCompacted)
		if e.Oldest != 0 || e.Compacted.Revision != 7 {
			t.Errorf("a later one, at %s: %+v", n.id, e)
		}
		for _, after := range []string{"/v1/events?after=8", "/v1/events"} {
			r := call(t, "GET", n.url+after, "", "Accept", "text/event-stream", "Last-Event-ID", "8")
			if r.status != 200 || !strings.HasPrefix(r.body, "id: 7\nevent: compacted\ndata: {") || strings.Count(r.body, "event:") != 1 {
				t.Errorf("a stream after a later one, at %s: %d %q", n.id, r.status, r.body)
			}
		}
	}
}

// TestEventsAsAStream: a stream continues after the last id, sends each event
// once, reports compaction, and ends.
func TestEventsAsAStream(t *testing.T) {
	n := startMaster(t, nil)
	n.happened("/a")
	n.happened("/b")
	resp := stream(t, n.url+"/v1/events?after=0", "Last-Event-ID", "2")
	lines := bufio.NewScanner(resp.Body)
	next := func(id, name, part string) {
		t.Helper()
		var got [4]string
		for i := range got {
			lines.Scan()
			got[i] = lines.Text()
		}
		if got[0] != "id: "+id || got[1] != "event: "+name || !strings.HasPrefix(got[2], "data: {") || !strings.Contains(got[2], part) || got[3] != "" {
			t.Errorf("%q, want %s of %s with %s", got, name, id, part)
		}
	}
	next("3", "file_created", `"path":"/b"`)
	n.happened("/c")
	next("4", "file_created", `"path":"/c"`)
	got := make(chan struct{})
	resp = stream(t, n.url+"/v1/events")
	lines = bufio.NewScanner(resp.Body)
	next("4", "bookmark", `{"revision":4,"cell":"c1"}`)
	n.compact()
	late := call(t, "GET", n.url+"/v1/events?after=0", "", "Accept", "text/event-stream")
	if want := "id: 1004\nevent: compacted\ndata: {\"oldest\":4,"; !strings.HasPrefix(late.body, want) || strings.Count(late.body, "event:") != 1 {
		t.Errorf("a stream that begins too late: %q", late.body)
	}
	n.server.Drain() // ends it regularly
	go func() { defer close(got); lines.Scan() }()
	<-got
	must(t, lines.Err())
}

// TestAcceptPrefersByWeight: a caller gets a stream if it names that type and
// does not prefer JSON.
func TestAcceptPrefersByWeight(t *testing.T) {
	n := startMaster(t, nil)
	for accept, stream := range map[string]bool{
		"": false, "*/*": false, "text/*": false, "application/json": false, "text/event-stream": true, "Text/Event-Stream;charset=utf-8": true,
		"text/event-stream, application/json": true, "application/json;q=0.9, text/event-stream": true, "text/event-stream;q=0.5, application/json": false,
		"text/event-stream;q=0": false, "text/event-stream; q=0.5, */*;q=0.1": true, "text/event-stream;q=x": true,
	} {
		want := map[bool]string{true: "text/event-stream", false: "application/json"}[stream]
		if got := call(t, "HEAD", n.url+"/v1/events?after=0", "", "Accept", accept).header.Get("Content-Type"); got != want {
			t.Errorf("%q is answered with %s, want %s", accept, got, want)
		}
	}
}

// TestWaitingForWhatIsToCome: a replica waits for a revision that only the
// master has reached.
func TestWaitingForWhatIsToCome(t *testing.T) {
	master, replica := startPair(t, nil)
	for range 4 {
		master.happened("/f")
	}
	resp := stream(t, replica.url+"/v1/events?after=7", "Last-Event-ID", "2")
	lines := bufio.NewScanner(resp.Body)
	for range 4 {
		replica.happened("/f")
	}
	for _, want := range []string{"id: 3", "id: 4"} {
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "id: ") {
		}
		if lines.Text() != want {
			t.Errorf("after 2 it was told %q, want %s", lines.Text(), want)
		}
	}
}

// stream begins a stream of events, which ends with the test.
func stream(t *testing.T, url string, headers ...string) *http.Response {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%v %v", resp, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

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

// TestWatchersPauseWhileTheServerStops: the hand-over of mastership may take
// long. Watchers that come again at once are not answered at once each time.
func TestWatchersPauseWhileTheServerStops(t *testing.T) {
	withDoor(t, func(t *testing.T, a *doorAudience) {
		a.ask("PUT", "kv/a", "1")
		at := a.index(t, "kv/a")
		a.server.Drain()
		for name, watch := range map[string]func(){
			"a stream": func() {
				_, over := a.listen(t.Context(), "after=0")
				<-over
			},
			"a poll": func() {
				q := httptest.NewRequest("GET", fmt.Sprintf("/v1/events?wait_ms=60000&after=%d", at), nil)
				q.Host = "r1"
				a.server.Handler().ServeHTTP(httptest.NewRecorder(), q)
			},
			"a blocking query": func() { a.ask("GET", fmt.Sprintf("kv/a?wait=1m&index=%d", at), "") },
		} {
			began := time.Now()
			watch()
			if took := time.Since(began); took == 0 || took > time.Second {
				t.Errorf("%s took %v", name, took)
			}
		}
	})
}
