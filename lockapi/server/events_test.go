package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestRefusedEventCalls: each names its culprit.
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

// TestEventsAsJSON: from any replica's own log; only "from now on" asks the master.
func TestEventsAsJSON(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, path := range []string{"/a", "/b", "/c"} {
		replica.happened(path)
	}
	master.revision = 3
	read := func(query string) (l lockapi.EventList) {
		t.Helper()
		got := call(t, "GET", replica.url+"/v1/events?"+query, "")
		got.wantStatus(t, 200)
		if err := json.Unmarshal([]byte(got.body), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := read("after=1"); len(l.Events) != 2 || l.Events[0].Path != "/b" || l.Revision != 3 {
		t.Errorf("%+v", l)
	}
	if l := read("after=0&limit=2"); len(l.Events) != 2 || l.Revision != 2 {
		t.Errorf("%+v", l)
	}
	if calls := master.made(); len(calls) > 0 {
		t.Errorf("the master was called: %q", calls)
	}
	if l := read(""); len(l.Events) != 0 || l.Revision != 3 {
		t.Errorf("from now on: %+v", l)
	}
	go replica.happened("/d")
	if l := read("after=3&wait_ms=60000"); len(l.Events) != 1 || l.Events[0].Path != "/d" {
		t.Errorf("waited: %+v", l)
	}
	replica.drop(2)
	if e := call(t, "GET", replica.url+"/v1/events?after=1", "").wantCode(t, lockapi.CodeCompacted); e.Oldest != 2 || e.Compacted.Revision != 4 {
		t.Errorf("%+v", e)
	}
	call(t, "GET", replica.url+"/v1/events", "", "Stout-Forward", "never").wantCode(t, lockapi.CodeNotMaster)
	replica.setMaster(3, "", "")
	call(t, "GET", replica.url+"/v1/events", "").wantCode(t, lockapi.CodeNoMaster)
	read("after=4")
	call(t, "GET", replica.url+"/v1/events?after=5", "").wantCode(t, lockapi.CodeNoMaster)
}

// TestEventsAfterWhatIsNotReached: a revision of another cell, or of a lost state, is
// compacted. A replica that is behind its master refuses no revision for that.
func TestEventsAfterWhatIsNotReached(t *testing.T) {
	master, replica := startPair(t, nil)
	for range 7 {
		master.happened("/a")
	}
	for range 3 {
		replica.happened("/a")
	}
	replica.drop(2)
	for _, n := range []*node{master, replica} {
		if r := call(t, "GET", n.url+"/v1/events?after=7", ""); r.status != 200 || !strings.Contains(r.body, `"revision":7`) {
			t.Errorf("the master's revision, at %s: %d %s", n.id, r.status, r.body)
		}
		e := call(t, "GET", n.url+"/v1/events?after=8", "").wantCode(t, lockapi.CodeCompacted)
		if want := map[string]uint64{master.id: 0, replica.id: 2}[n.id]; e.Oldest != want || e.Compacted.Revision != 7 {
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

// TestEventsAsAStream: it goes on behind the last id, tells each event once, says
// that it is too late, and ends.
func TestEventsAsAStream(t *testing.T) {
	n := startMaster(t, nil)
	n.happened("/a")
	n.happened("/b")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, _ := http.NewRequestWithContext(ctx, "GET", n.url+"/v1/events?after=0", nil)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", "1")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
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
	next("2", "file_created", `"path":"/b"`)
	n.happened("/c")
	next("3", "file_created", `"path":"/c"`)
	n.drop(9)
	next("3", "compacted", `"oldest":9`)
	if lines.Scan() {
		t.Errorf("behind the end: %q", lines.Text())
	}
	got := make(chan struct{})
	again, _ := http.NewRequestWithContext(ctx, "GET", n.url+"/v1/events", nil)
	again.Header.Set("Accept", "text/event-stream")
	n.drop(0)
	resp, err = http.DefaultTransport.RoundTrip(again)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines = bufio.NewScanner(resp.Body)
	next("3", "bookmark", `{"revision":3,"cell":"cell-1"}`)
	n.server.Drain() // which ends it in good order
	go func() { defer close(got); lines.Scan() }()
	<-got
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// TestAcceptPrefersByWeight: a stream is for who asks for one by name, and not
// rather for JSON.
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
