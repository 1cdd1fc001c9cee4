package contract_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// eventsAfter returns the events after a revision at a replica, once there are
// enough.
func eventsAfter(t *testing.T, r *cell.Replica, after float64, query string, atLeast int) []object {
	t.Helper()
	for deadline := time.Now().Add(cell.Step); ; {
		got, _ := call(t, r, http.StatusOK, "GET", fmt.Sprintf("/v1/events?after=%.0f&limit=1000&wait_ms=100%s", after, query), "")
		all := list(t, got, "events")
		if len(all) >= atLeast {
			return all
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events at %s after %s, want %d: %v", len(all), r.ID, cell.Step, atLeast, got)
		}
	}
}

// happen changes a file, a lock and a session in every way that causes an
// event, and returns the revision before.
func happen(t *testing.T, r *cell.Replica, at string) float64 {
	t.Helper()
	holder, waiter := open(t, r, `{"ttl_ms":600000,"name":"holder"}`), open(t, r, `{"ttl_ms":600000,"name":"waiter"}`)
	stat, _ := call(t, r, http.StatusCreated, "PUT", "/v1/files"+at+"/f", "a\n\nid: 9\n")
	call(t, r, http.StatusOK, "PUT", "/v1/files"+at+"/f", "\xff\n")
	call(t, r, http.StatusOK, "DELETE", "/v1/files"+at+"/f", "")
	call(t, r, http.StatusCreated, "PUT", "/v1/files"+at+"/e?ephemeral=true&session="+waiter, "line\nline")
	call(t, r, http.StatusOK, "PUT", "/v1/locks"+at+"/l", fmt.Sprintf(`{"session":%q,"handle":"h"}`, holder))
	call(t, r, http.StatusAccepted, "PUT", "/v1/locks"+at+"/l", fmt.Sprintf(`{"session":%q,"queue":true}`, waiter))
	call(t, r, http.StatusOK, "DELETE", fmt.Sprintf("/v1/locks%s/l?session=%s&handle=h", at, holder), "")
	call(t, r, http.StatusCreated, "PUT", "/v1/files"+at+"x/f", "beside")
	call(t, r, http.StatusNoContent, "DELETE", "/v1/sessions/"+waiter, "")
	return stat["revision"].(float64) - 1
}

// wantEvents are the events of happen, without the events of other paths.
var wantEvents = []object{
	{"type": "file_created", "generation": 1, "size": 9}, {"type": "file_changed", "generation": 2}, {"type": "file_deleted", "reason": "deleted", "generation": 2},
	{"type": "file_created", "session": nil, "content": "line\nline"}, {"type": "lock_acquired", "session_name": "holder", "handle": "h", "mode": "exclusive", "token": nil},
	{"type": "lock_contended", "session_name": "waiter", "handle": ""}, {"type": "lock_released", "reason": "released", "session_name": "holder"},
	{"type": "lock_acquired", "session_name": "waiter"},
}

// sameEvents: every replica sends the same events, in order, without a gap,
// with any filter.
func sameEvents(t *testing.T, c *cell.Cell) {
	before := happen(t, c.Ready(t), "/told")
	end := len(wantEvents) + 3 // plus events of other paths, and two at the session's end
	var first string
	for _, r := range c.Replicas() {
		if n := len(eventsAfter(t, r, before, "", end)); n != end {
			t.Errorf("%d events at %s, want %d", n, r.ID, end)
		}
		all := eventsAfter(t, r, before, "&prefix=/told/", end-1)
		for i, want := range wantEvents {
			if want["content"] == nil {
				if err := has(all[i], want); err != nil {
					t.Errorf("event %d at %s: %v", i, r.ID, err)
				}
			}
			if all[i]["revision"] != before+float64(i)+1 {
				t.Errorf("event %d at %s: %v", i, r.ID, all[i])
			}
		}
		text, err := json.Marshal(all)
		must(t, err)
		if first == "" {
			first = string(text)
		}
		if string(text) != first {
			t.Errorf("%s sends %s\nwant %s", r.ID, text, first)
		}
		for query, n := range map[string]int{
			"&path=/told/f": 3, "&path=/told/f&path=/toldx/f": 4, "&prefix=/told": end, "&prefix=/told/&path=/toldx/f": end, "&path=/told": 0,
			"&types=file_deleted": 2, "&types=file_deleted,lock_contended&prefix=/told/": 3, "&path=/told/l&types=file_created": 0, "&prefix=/none/": 0,
		} {
			if got := eventsAfter(t, r, before, query, 0); len(got) != n {
				t.Errorf("%s at %s: %d events, want %d: %v", query, r.ID, len(got), n, got)
			}
		}
		ahead, _ := call(t, r, http.StatusGone, "GET", "/v1/events?after=9007199254740991", "")
		if present, ok := ahead["revision"].(float64); ahead["code"] != string(lockapi.CodeCompacted) || !ok || present < before+float64(end) {
			t.Errorf("beyond the present revision: %v", ahead)
		}
	}
}

// stream is a stream of server-sent events that is read line by line.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
}

func follow(t *testing.T, r *cell.Replica, query string, headers ...string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.URL+"/v1/events?"+query, nil)
	must(t, err)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Stout-Epoch") == "" {
		t.Fatalf("a stream at %s: %d %v", r.ID, resp.StatusCode, resp.Header)
	}
	return &stream{t, bufio.NewScanner(resp.Body)}
}

// next returns the next event: three lines and an empty one.
func (s *stream) next() (name, id string, data object) {
	s.t.Helper()
	var got [4]string
	for i, prefix := range []string{"id: ", "event: ", "data: ", ""} {
		if !s.lines.Scan() {
			s.t.Fatalf("the stream has ended behind %q: %v", got, s.lines.Err())
		}
		line, ok := strings.CutPrefix(s.lines.Text(), prefix)
		if !ok || i == 3 && line != "" {
			s.t.Fatalf("line %q behind %q", s.lines.Text(), got)
		}
		got[i] = line
	}
	must(s.t, json.Unmarshal([]byte(got[2]), &data))
	return got[1], got[0], data
}

// change returns the next event other than a bookmark.
func (s *stream) change() (name, id string, data object) {
	s.t.Helper()
	for {
		if name, id, data = s.next(); name != lockapi.StreamBookmark {
			return name, id, data
		}
	}
}

// streams: a stream has the events of the list, resumes after any event at any
// replica, has bookmarks in time, and reports a new master with any filter.
func streams(t *testing.T, c *cell.Cell) {
	before := happen(t, c.Ready(t), "/streamed")
	for _, r := range c.Replicas() {
		all := eventsAfter(t, r, before, "&prefix=/streamed/", len(wantEvents)+2)
		for behind := 0; behind < len(all); behind += 3 {
			last := fmt.Sprintf("%.0f", before)
			if behind > 0 {
				last = fmt.Sprintf("%.0f", all[behind-1]["revision"])
			}
			s := follow(t, r, "after=9007199254740991&prefix=/streamed/", "Last-Event-ID", last)
			for _, want := range all[behind:] {
				name, id, data := s.change()
				if err := has(data, want); err != nil || name != want["type"] || id != fmt.Sprintf("%.0f", want["revision"]) {
					t.Errorf("%s %s at %s behind %s: %v", id, name, r.ID, last, err)
				}
			}
		}
	}
	var blind []*stream
	began := time.Now()
	for _, r := range c.Replicas() {
		s := follow(t, r, "path=/none&types=file_created")
		if name, _, _ := s.next(); name != lockapi.StreamBookmark {
			t.Errorf("a stream from now on begins with %s", name)
		}
		blind = append(blind, s)
	}
	for _, s := range blind {
		if name, id, data := s.next(); name != lockapi.StreamBookmark || len(data) != 2 || data["cell"] == "" || fmt.Sprintf("%.0f", data["revision"]) != id {
			t.Errorf("a stream that nothing is for: %s %s %v", name, id, data)
		}
	}
	const busy = 30 * time.Second // for a busy machine; lockapi/server tests the time itself
	if took := time.Since(began); took > lockapi.MaxBookmarkMS*time.Millisecond+busy {
		t.Errorf("the bookmarks came after %s", took)
	}
	moved, _ := call(t, c.Ready(t), http.StatusOK, "POST", "/v1/cell/transfer", "{}")
	for _, s := range blind {
		name, _, data := s.change()
		if err := has(data, object{"type": "master_changed", "master": moved["master"], "epoch": nil}); err != nil || len(data) != 4 {
			t.Errorf("%s: %v, %v", name, err, data)
		}
	}
}

// compacted: a request for compacted events is answered as such, in JSON and in
// a stream.
func compacted(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	for i := range 3 {
		var ops []string
		for n := range 100 {
			ops = append(ops, fmt.Sprintf(`{"put":{"path":"/compacted/%d","content":"%d"}}`, n, i))
		}
		call(t, master, http.StatusOK, "POST", "/v1/transactions", `{"then":[`+strings.Join(ops, ",")+`]}`)
	}
	for _, r := range c.Replicas() {
		// This replica has sent all of them once it has sent one more.
		stat, _ := call(t, r, http.StatusCreated, "PUT", "/v1/files/compacted/"+r.ID, "")
		eventsAfter(t, r, stat["revision"].(float64)-1, "", 1)
		gone, _ := call(t, r, http.StatusGone, "GET", "/v1/events?after=1", "")
		must(t, has(gone, object{"code": "compacted", "oldest": nil, "revision": nil}))
		oldest := gone["oldest"].(float64)
		if kept, _ := call(t, r, http.StatusOK, "GET", fmt.Sprintf("/v1/events?after=%.0f&limit=1", oldest), ""); list(t, kept, "events")[0]["revision"] != oldest+1 {
			t.Errorf("after the oldest, %.0f, at %s: %v", oldest, r.ID, kept)
		}
		s := follow(t, r, "after=1&path=/none")
		name, id, data := s.next()
		if err := has(data, object{"oldest": nil, "revision": nil}); err != nil || name != lockapi.StreamCompacted || id != fmt.Sprintf("%.0f", data["revision"]) || len(data) != 2 {
			t.Errorf("%s %s %v at %s", id, name, data, r.ID)
		}
		if s.lines.Scan() {
			t.Errorf("behind the end at %s: %q", r.ID, s.lines.Text())
		}
	}
}
