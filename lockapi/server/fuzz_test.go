package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	sse "github.com/stoutlock/stout/lockapi/server/internal/stream"
	"github.com/stoutlock/stout/master"
)

// strictMaster is a stand-in that records invalid calls.
type strictMaster struct {
	*standIn
	faults []error
}

func (s *strictMaster) want(errs ...error) {
	for _, err := range errs {
		if err != nil {
			s.faults = append(s.faults, err)
		}
	}
}

// Do lets the stand-in answer if the call is one for an office.
func (s *strictMaster) Do(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error) {
	if v, ok := c.(interface{ Validate() error }); ok {
		s.want(v.Validate())
	}
	switch c := c.(type) {
	case *lockapi.KeepAlive:
		s.want(validateID(c.Session))
		c.WaitMS = min(c.WaitMS, 5)
	case *lockapi.CloseSession:
		s.want(validateID(c.Session))
	case *lockapi.GetSession:
		s.want(validateID(c.Session))
	case *lockapi.ListSessions:
		s.want(validateLimit(c.Limit))
	case *lockapi.AcquireLock:
		s.want(lockapi.ValidatePath(c.Path))
		c.WaitMS = min(c.WaitMS, 5)
	case *lockapi.ReleaseLock:
		s.want(lockapi.ValidatePath(c.Path))
		if c.Session == "" || c.Token > lockapi.MaxToken {
			s.want(fmt.Errorf("release by session %q with token %d", c.Session, c.Token))
		}
	case *lockapi.GetLock:
		s.want(lockapi.ValidatePath(c.Path))
		if c.Waiters < 0 || c.Waiters > lockapi.MaxWaiters {
			s.want(fmt.Errorf("read of %d positions", c.Waiters))
		}
	case *lockapi.ListLocks:
		s.want(validateLimit(c.Limit))
	case *lockapi.CheckSequencer:
		_, err := lockapi.ParseSequencer(c.Sequencer.String())
		s.want(err)
	case *lockapi.SetMember:
		s.want(validateMember(c.ID))
	case *lockapi.RemoveMember:
		s.want(validateMember(c.ID))
	case *lockapi.ReplaceMember:
		s.want(validateMember(c.ID))
	case *lockapi.WriteFile:
		s.wantWrite(c)
	case *lockapi.DeleteFiles:
		s.wantDeletion(c)
	case *lockapi.Transact:
		if s.want(lockapi.ValidateKey(c.Key)); c.Key != "" && c.Session == "" {
			s.want(fmt.Errorf("a transaction of nobody under the key %q", c.Key))
		}
	case *lockapi.ListFiles:
		s.want(validateLimit(c.Limit))
	}
	return s.standIn.Do(ctx, by, stale, c)
}

func validateMember(id string) error {
	if id == "" || len(id) > lockapi.MaxMemberIDBytes {
		return fmt.Errorf("replica id %q", id)
	}
	return nil
}

func validateID(id string) error {
	if id == "" || strings.Contains(id, "/") {
		return fmt.Errorf("session id %q", id)
	}
	return nil
}

func validateLimit(limit int) error {
	if limit < 1 || limit > lockapi.MaxListLimit {
		return fmt.Errorf("a page of %d", limit)
	}
	return nil
}

// bench is a cell without a network: a master, and a replica that forwards to
// it.
type bench struct {
	t                 testing.TB
	master, replica   strictMaster
	toMaster, toOther http.Handler
}

func newBench(t testing.TB) *bench {
	b := &bench{t: t}
	b.reset("r1")
	serve := func(m *strictMaster) http.Handler {
		return server.New(server.Options{Master: m, Peers: b, ForwardTimeout: time.Millisecond}).Handler()
	}
	b.toMaster, b.toOther = serve(&b.master), serve(&b.replica)
	return b
}

// reset creates a cell. Its master, if any, has two sessions; the first holds
// /a.
func (b *bench) reset(elected string) {
	for _, m := range []*strictMaster{&b.master, &b.replica} {
		if m.standIn != nil {
			m.end()
		}
	}
	b.master, b.replica = strictMaster{standIn: makeStandIn("r1")}, strictMaster{standIn: makeStandIn("r2")}
	url := ""
	if elected != "" {
		url = "http://" + elected
	}
	for _, m := range []*strictMaster{&b.master, &b.replica} {
		m.setMaster(3, elected, url)
		for _, id := range []string{"s1", "s2"} {
			m.addSession(lockapi.Session{ID: id, TTLMS: lockapi.DefaultTTLMS, Epoch: 3})
		}
		m.must(&lockapi.AcquireLock{Path: "/a", LockRequest: lockapi.LockRequest{Session: "s1", Mode: lockapi.Exclusive}})
	}
}

// RoundTrip delivers forwarded calls.
func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	b.toMaster.ServeHTTP(w, r)
	return w.Result(), nil
}

// parse returns the request as net/http's server would, or nil if it would
// refuse it.
func parse(method, target, forward, key string, body []byte) *http.Request {
	var raw strings.Builder
	fmt.Fprintf(&raw, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", method, target, len(body))
	for name, value := range map[string]string{lockapi.HeaderForward: forward, lockapi.HeaderIdempotencyKey: key} {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil
		}
		if value != "" {
			fmt.Fprintf(&raw, "%s: %s\r\n", name, value)
		}
	}
	raw.WriteString("\r\n")
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(raw.String()), bytes.NewReader(body))))
	if err != nil || len(r.TransferEncoding) > 0 || r.ContentLength != int64(len(body)) {
		return nil
	}
	return r
}

// FuzzRequest: every reply conforms to the contract, its code fits the request,
// and the master receives only valid calls. A forwarding replica gives the same
// result. Its seeds have the calls of decisions, which covers every route.
func FuzzRequest(f *testing.F) {
	session := strings.NewReplacer("${own}", "s1", "${other}", "s2")
	for _, route := range server.Routes() {
		for _, d := range decisions[route] {
			method, _, _ := strings.Cut(route, " ")
			f.Add(method, session.Replace(d.path), "", "", []byte(session.Replace(d.body)))
		}
	}
	for _, s := range requestSeeds {
		f.Add(s.method, s.target, s.forward, s.key, []byte(s.body))
	}
	b, doc := newBench(f), document(f)
	f.Fuzz(func(t *testing.T, method, target, forward, key string, body []byte) {
		send := func(to http.Handler, master string) *outcome {
			b.reset(master)
			r := parse(method, target, forward, key, body)
			if r == nil || isOfFiles(r) {
				return nil
			}
			w := httptest.NewRecorder()
			to.ServeHTTP(w, r)
			o := &outcome{doc: doc, request: r, forward: forward, body: len(body), reply: w, known: master,
				made: append(b.master.made(), b.replica.made()...)}
			for _, fault := range append(b.master.faults, b.replica.faults...) {
				t.Errorf("the master was called with %v", fault)
			}
			o.check(t)
			return o
		}
		direct := send(b.toMaster, "r1")
		if direct == nil {
			return
		}
		forwarded := send(b.toOther, "r1")
		if !forwarded.staysHere() && (forwarded.code != direct.code || forwarded.reply.Code != direct.reply.Code) {
			t.Errorf("a replica that forwards answers %d %s, the master %d %s", forwarded.reply.Code, forwarded.reply.Body, direct.reply.Code, direct.reply.Body)
		}
		send(b.toMaster, "")
	})
}

// requestSeeds are other requests, with each way to be refused.
var requestSeeds = []struct{ method, target, forward, key, body string }{
	{"POST", "/v1/sessions", "", "once", `{"ttl_ms":12000,"name":"billing@host7","meta":{"pid":"811"}}`},
	{"POST", "/v1/sessions", "never", "", ``},
	{"GET", "/v1/sessions?limit=1&after=s1&consistency=stale", "", "", ``},
	{"POST", "/v1/sessions/s1/keepalive", "", "", `{"wait_ms":8000,"ack":17}`},
	{"GET", "/v1/sessions/s%31?consistency=linearizable", "", "", ``},
	{"PUT", "/v1/locks/a", "", "", `{"session":"s2","handle":"h","mode":"shared","limit":3,"wait_ms":5,"queue":true,"lock_delay_ms":60000}`},
	{"PUT", "/v1/locks/db/migrate", "", "", `{"session":"s2"}`},
	{"PUT", "/v1/locks/a", "", "", `{"session":"s1","mode":"shared"}`},
	{"DELETE", "/v1/locks/a?session=s1&handle=&token=1", "", "", ``},
	{"GET", "/v1/locks/caf%C3%A9", "", "", ``},
	{"HEAD", "/v1/locks/a%2Fb", "", "", ``},
	{"GET", "/v1/locks?prefix=/db/&limit=1000&after=/db/x", "always", "", ``},
	{"GET", "/v1/sequencers?value=exclusive:1:/a", "", "", ``},
	{"POST", "/v1/members/r1/replace?force=true", "", "", `{"directory":"0123456789abcdef","in_place_of":"00000000000000aa"}`},
	{"POST", "/v1/members", "", "", `{"id":"r4","directory":"0123456789abcdef","raft_addr":"h:1","url":"http://h:2","suffrage":"nonvoter"}`},
	{"PATCH", "/v1/members/r4?force=true", "", "", `{"raft_addr":"h:1","url":"http://h:2","suffrage":"voter"}`},
	{"PATCH", "/v1/members/nobody", "", "", `{"url":"https://h"}`},
	{"DELETE", "/v1/members/r4?force=true&directory=0123456789abcdef", "", "", ``},
	{"DELETE", "/v1/members/nobody", "", "", ``},
	{"POST", "/v1/members/nobody/replace", "", "", `{"directory":"0123456789abcdef"}`},
	{"GET", "/livez?x=1", "", "", ``},
	{"PATCH", "/v1/locks/a", "", "", `[`},
	{"OPTIONS", "*", "", "", ``},
	{"GET", "http://x", "", "", ``},
	{"PUT", "/v1/locks/../sessions", "", "", `{"session":null}`},
}

// isOfFiles reports whether FuzzFiles covers the request.
func isOfFiles(r *http.Request) bool {
	for _, route := range []string{lockapi.RouteFiles, lockapi.RouteTransactions, lockapi.RouteEvents} {
		if strings.HasPrefix(r.URL.Path, route) {
			return true
		}
	}
	return false
}

func (s *strictMaster) wantWrite(w *lockapi.WriteFile) {
	path := w.Path
	if w.Sequential {
		path += strings.Repeat("0", lockapi.SequentialDigits)
	}
	s.want(lockapi.ValidatePath(path), lockapi.ValidateKey(w.Key))
	switch {
	case len(w.Content) > lockapi.MaxFileBytes, len(w.Sequencers) > lockapi.MaxSequencers:
		s.want(fmt.Errorf("%d bytes under %d sequencers", len(w.Content), len(w.Sequencers)))
	case w.IfAbsent && w.IfRevision != nil, w.Sequential && (w.IfAbsent || w.IfRevision != nil):
		s.want(fmt.Errorf("conditions that contradict each other: %+v", w))
	case w.Session == "" && (w.Key != "" || w.Ephemeral != nil && *w.Ephemeral):
		s.want(fmt.Errorf("a write of nobody: %+v", w))
	}
}

func (s *strictMaster) wantDeletion(d *lockapi.DeleteFiles) {
	s.want(lockapi.ValidateKey(d.Key))
	switch {
	case (d.Path == "") == (d.Prefix == ""), d.Prefix != "" && d.IfRevision != nil, d.Key != "" && d.Session == "":
		s.want(fmt.Errorf("a deletion of %+v", d))
	case d.Path != "":
		s.want(lockapi.ValidatePath(d.Path))
	default:
		s.want(lockapi.ValidatePrefix(d.Prefix))
	}
}

// FuzzFiles is FuzzRequest for files, transactions and events: every answer
// conforms to the contract, from the master and from a forwarding replica, and
// the master receives only valid calls.
func FuzzFiles(f *testing.F) {
	for _, s := range fileSeeds {
		f.Add(s.method, s.target, s.key, s.match, s.none, []byte(s.body))
	}
	b := newBench(f)
	f.Fuzz(func(t *testing.T, method, target, key, match, none string, body []byte) {
		send := func(to http.Handler) *httptest.ResponseRecorder {
			b.reset("r1")
			r := parse(method, target, "", key, body)
			if r == nil || !isOfFiles(r) {
				return nil
			}
			for name, value := range map[string]string{"If-Match": match, "If-None-Match": none} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // it may wait for events
			defer cancel()
			w := httptest.NewRecorder()
			to.ServeHTTP(w, r.WithContext(ctx))
			for _, fault := range append(b.master.faults, b.replica.faults...) {
				t.Errorf("the master was called with %v", fault)
			}
			return w
		}
		direct := send(b.toMaster)
		if direct == nil {
			return
		}
		checkTerms(t, direct)
		if other := send(b.toOther); other.Code != direct.Code && !strings.Contains(target, "stale") {
			t.Errorf("a replica that forwards answers %d %s, the master %d %s", other.Code, other.Body, direct.Code, direct.Body)
		}
	})
}

// checkTerms checks that an answer conforms to the contract.
func checkTerms(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code < 400 {
		return
	}
	e := &lockapi.Error{}
	if err := json.Unmarshal(w.Body.Bytes(), e); err != nil && w.Body.Len() > 0 {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	if w.Body.Len() > 0 && (!e.Code.Valid() || e.Code == lockapi.CodeInternal || e.Code.Status() != w.Code || (e.Field != "") != (e.Code == lockapi.CodeInvalidArgument)) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// fileSeeds cover each operation, and ways to be refused.
var fileSeeds = []struct{ method, target, key, match, none, body string }{
	{"PUT", "/v1/files/app/conf", "", "", "", "content"},
	{"PUT", "/v1/files/app/conf?session=s1&ephemeral=true&sequencer=exclusive:1:/a&sequencer=shared:2:/b", "once", `"57"`, "", "\xff\x00"},
	{"PUT", "/v1/files/a%20b?ephemeral=true", "", "", "*", ""},
	{"POST", "/v1/files/queue/job-?session=s2&ephemeral=false", "key", "", "", "x"},
	{"POST", "/v1/files/queue/", "", `"1"`, "", "x"},
	{"GET", "/v1/files/app/conf?as=json", "", "", `"1"`, ""},
	{"HEAD", "/v1/files/app/conf", "", "", "", ""},
	{"GET", "/v1/files?prefix=/app/&delimiter=/&content=true&after=/app/x&limit=3", "", "", "", ""},
	{"DELETE", "/v1/files/app/conf?session=s1", "k", `"3"`, "", ""},
	{"DELETE", "/v1/files?prefix=/app/", "", "", "", ""},
	{"GET", "/v1/events?after=3&path=/a&prefix=/b/&types=file_created,lock_released&content=true&limit=5&wait_ms=1", "", "", "", ""},
	{"GET", "/v1/events", "", "", "", ""},
	{"POST", "/v1/transactions", "k", "", "", `{"session":"s1","if":[{"file":"/a","revision":57},{"file":"/b","exists":false},{"sequencer":"exclusive:1:/a"},{"session":"s2"},{"lock":"/x","state":"free"}],"then":[{"put":{"path":"/a","content":"x"}},{"create":{"path":"/b","content_base64":"eA=="}},{"create_sequential":{"path":"/q/"}},{"delete":{"path":"/c"}},{"get":{"path":"/d"}},{"acquire":{"path":"/x","handle":"h","mode":"shared","limit":2,"lock_delay_ms":3}},{"release":{"path":"/y","token":42}}],"else":[]}`},
	{"POST", "/v1/transactions", "", "", "", `{"then":[{"put":{"path":"/a","content":"x","ephemeral":true}}]}`},
	{"POST", "/v1/transactions", "", "", "", `{"if":[{}],"then":[{}]}`},
}

// FuzzStreamedEvent: for any path and content, exactly the written event is read back from the stream, by the rules of server-sent events (HTML,
// section 9.2.6).
func FuzzStreamedEvent(f *testing.F) {
	f.Add("/a", []byte("x"))
	f.Add("/a\nevent: b", []byte("1\r2\n\n\ndata: 3\r\n"))
	f.Add("/\u2028\u0085", []byte("\xff\xfe\x00\ndata:"))
	f.Fuzz(func(t *testing.T, path string, content []byte) {
		file := lockapi.File{FileStat: lockapi.FileStat{Path: path, Revision: 7, Size: len(content)}, ContentBase64: content}
		if text := string(content); utf8.Valid(content) {
			file.Content, file.ContentBase64 = &text, nil
		}
		var out bytes.Buffer
		e := lockapi.CellEvent{Revision: 7, Type: lockapi.EventFileChanged, Path: path, File: &file}
		must(t, sse.WriteEvent(&out, 7, "file_changed", e))
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(out.String()), "\n")
		if len(lines) != 5 || lines[0] != "id: 7" || lines[1] != "event: file_changed" || lines[3] != "" || lines[4] != "" {
			t.Fatalf("it is read as %q", lines)
		}
		var got lockapi.CellEvent
		must(t, json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "data: ")), &got))
		if utf8.ValidString(path) && got.Path != path || got.File == nil || !bytes.Equal(contentOf(got.File), content) {
			t.Errorf("%q with %q is read as %q with %q", path, content, got.Path, contentOf(got.File))
		}
	})
}

func contentOf(f *lockapi.File) []byte {
	if f.Content != nil {
		return []byte(*f.Content)
	}
	return f.ContentBase64
}
