package server_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
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
		got := call(t, "GET", replica.url+"/v1/events?"+query, "")
		got.wantStatus(t, 200)
		must(t, json.Unmarshal([]byte(got.body), &l))
		return l
	}
	if l := read("after=2"); len(l.Events) != 2 || l.Events[0].Path != "/b" || l.Revision != 4 {
		t.Errorf("%+v", l)
	}
	if l := read("after=0&limit=2"); len(l.Events) != 2 || l.Revision != 2 {
		t.Errorf("%+v", l)
	}
	if calls := master.made(); len(calls) > 0 {
		t.Errorf("the master was called: %q", calls)
	}
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
		if r := call(t, "GET", n.url+"/v1/events?after=7", ""); r.status != 200 || !strings.Contains(r.body, `"revision":7`) {
			t.Errorf("the master's revision, at %s: %d %s", n.id, r.status, r.body)
		}
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
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
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
