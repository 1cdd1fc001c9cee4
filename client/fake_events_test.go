package client

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// fakeEvents is how a replica tells events.
type fakeEvents struct {
	noStream bool   // it answers as JSON, whatever is accepted
	oldest   uint64 // the smallest revision after which it keeps events
	upTo     uint64 // what it has of the log; 0 stands for all
	script   string // if set, all that its streams tell
	streams  int    // that were begun
	mute     bool   // it says nothing on a stream, not even that it is one
}

// replicaOf is the replica that a request goes to.
func (f *fakeCell) replicaOf(req *http.Request) *fakeReplica {
	if r := f.replicas[req.URL.Host]; r != nil {
		return r
	}
	return f.replicas["r1"]
}

// tellable are the events after a revision that a query asks for, and up to
// which one they are told. f.mu is held.
func (f *fakeCell) tellable(r *fakeReplica, after uint64, query url.Values) ([]lockapi.CellEvent, uint64) {
	upTo := f.files.revision
	if r.events.upTo != 0 {
		upTo = min(upTo, r.events.upTo)
	}
	var out []lockapi.CellEvent
	for _, e := range f.files.history {
		if e.Revision <= after || e.Revision > upTo || !asked(&e, query) {
			continue
		}
		if e.File != nil && e.Type != lockapi.EventFileDeleted {
			file := *e.File
			if now := f.files.files[e.Path]; !query.Has("content") || now == nil || now.Revision != e.Revision {
				file.Content, file.ContentBase64 = nil, nil
			}
			e.File = &file
		}
		out = append(out, e)
	}
	return out, max(upTo, after)
}

func asked(e *lockapi.CellEvent, query url.Values) bool {
	if types := query.Get("types"); types != "" && !slices.Contains(strings.Split(types, ","), string(e.Type)) {
		return false
	}
	return !query.Has("path") && !query.Has("prefix") || slices.Contains(query["path"], e.Path) ||
		slices.ContainsFunc(query["prefix"], func(p string) bool { return strings.HasPrefix(e.Path, p) })
}

func (f *fakeCell) ready(w http.ResponseWriter, req *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.replicaOf(req); r.lonely {
		refuse(w, lockapi.Errorf(lockapi.CodeNoMaster, "no master is known"))
		return
	}
	reply(w, 200, struct{}{})
}

func (f *fakeCell) pollEvents(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	wait, _ := strconv.Atoi(query.Get("wait_ms"))
	timer := time.NewTimer(time.Duration(wait) * time.Millisecond)
	defer timer.Stop()
	for waited := wait == 0; ; {
		f.mu.Lock()
		r, after := f.replicaOf(req), f.files.revision
		if query.Has("after") {
			after, _ = strconv.ParseUint(query.Get("after"), 10, 64)
		}
		if after < r.events.oldest {
			e := lockapi.Errorf(lockapi.CodeCompacted, "not kept")
			e.Compacted = lockapi.Compacted{Oldest: r.events.oldest, Revision: f.files.revision}
			f.mu.Unlock()
			refuse(w, e)
			return
		}
		events, upTo := f.tellable(r, after, query)
		change := f.change
		f.mu.Unlock()
		if len(events) > 0 || waited {
			reply(w, 200, lockapi.EventList{Events: append([]lockapi.CellEvent{}, events...), Revision: upTo})
			return
		}
		select {
		case <-change:
		case <-timer.C:
			waited = true
		case <-req.Context().Done():
			return
		}
	}
}

// stream answers with server-sent events.
func (f *fakeCell) stream(req *http.Request, r *fakeReplica, broken <-chan struct{}) (*http.Response, error) {
	query := req.URL.Query()
	after, err := strconv.ParseUint(query.Get("after"), 10, 64)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	r.events.streams++
	mute, script, oldest, gate := r.events.mute, r.events.script, r.events.oldest, f.gate
	f.mu.Unlock()
	if mute {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	if e := through(gate, req); e != nil {
		w := httptest.NewRecorder()
		refuse(w, e)
		return w.Result(), nil
	}
	if after < oldest {
		w := httptest.NewRecorder()
		f.pollEvents(w, req)
		return w.Result(), nil
	}
	body, out := io.Pipe()
	go func() {
		if script != "" {
			_, _ = io.WriteString(out, script)
			out.Close()
			return
		}
		out.CloseWithError(f.tellAll(req, r, out, after, broken))
	}()
	h := http.Header{"Content-Type": {lockapi.TypeEventStream + "; charset=utf-8"}}
	return &http.Response{StatusCode: 200, Header: h, Body: body}, nil
}

// tellAll writes a stream until it breaks.
func (f *fakeCell) tellAll(req *http.Request, r *fakeReplica, out io.Writer, after uint64, broken <-chan struct{}) error {
	bookmarks := time.NewTicker(10 * time.Second)
	defer bookmarks.Stop()
	for {
		f.mu.Lock()
		change := f.change
		if after < r.events.oldest {
			at := lockapi.Compacted{Oldest: r.events.oldest, Revision: f.files.revision}
			f.mu.Unlock()
			_, err := io.WriteString(out, sse(lockapi.StreamCompacted, at.Revision, at))
			return err
		}
		events, upTo := f.tellable(r, after, req.URL.Query())
		gate := f.gate
		f.mu.Unlock()
		if through(gate, req) != nil {
			_, err := io.WriteString(out, sse(lockapi.StreamDenied, after, struct{}{}))
			return err
		}
		for _, e := range events {
			if _, err := io.WriteString(out, sse(string(e.Type), e.Revision, e)); err != nil {
				return err
			}
			after = e.Revision
		}
		select {
		case <-change:
		case <-bookmarks.C:
			after = upTo
			if _, err := io.WriteString(out, sse(lockapi.StreamBookmark, upTo, lockapi.Bookmark{Revision: upTo})); err != nil {
				return err
			}
		case <-broken:
			return io.ErrUnexpectedEOF
		case <-req.Context().Done():
			return req.Context().Err()
		}
	}
}

// sse is a server-sent event.
func sse(event string, id uint64, data any) string {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(": a comment\nid: %d\nevent: %s\ndata: %s\n\n", id, event, raw)
}

// put writes a file as somebody else does.
func (f *fakeCell) put(path, content string) {
	f.set(func() { f.tellFile(f.write(path, []byte(content))) })
}

// forget has replicas keep no events of before now.
func (f *fakeCell) forget(ids ...string) {
	f.set(func() {
		for _, id := range ids {
			f.replicas[id].events.oldest = f.files.revision
		}
	})
}

// breakStreams breaks the connections of all replicas.
func (f *fakeCell) breakStreams() {
	f.set(func() {
		for _, r := range f.replicas {
			close(r.broken)
			r.broken = make(chan struct{})
		}
	})
}

// streams counts the streams that were begun.
func (f *fakeCell) streams() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.replicas {
		n += r.events.streams
	}
	return n
}

// never is a revision that is never reached.
const never = math.MaxUint64
