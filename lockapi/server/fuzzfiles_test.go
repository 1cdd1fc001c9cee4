package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
	sse "github.com/stoutlock/stout/lockapi/server/internal/stream"
)

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
