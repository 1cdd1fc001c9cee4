package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
)

// writes makes backups have this many bytes of state and end with an error.
func (f *standIn) writes(size int, end error) {
	f.set(func() {
		f.backup = func(w io.Writer) error {
			for left := size; left > 0; left -= 1000 {
				if _, err := w.Write(bytes.Repeat([]byte("s"), min(left, 1000))); err != nil {
					return err
				}
			}
			return end
		}
	})
}

// TestBackupIsWhole: a backup of any length is complete, from the master and
// through a replica.
func TestBackupIsWhole(t *testing.T) {
	t.Parallel()
	master, replica := startPair(t, nil)
	for _, size := range []int{0, 10, 3 << 20} {
		master.writes(size, nil)
		for _, n := range []*node{master, replica} {
			got := callWithRoom(t, "GET", n.url+"/v1/backup")
			got.wantStatus(t, 200)
			h, err := backup.Verify(strings.NewReader(got.body))
			if err != nil || h.Revision != 1 || len(got.body) < size {
				t.Errorf("%d bytes of state by %s: %+v, %v", size, n.id, h, err)
			}
			if h := got.header; h.Get("Content-Type") != lockapi.TypeBackup || h.Get(lockapi.HeaderRevision) != "1" || h.Get(lockapi.HeaderCell) != "c1" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("headers by %s: %v", n.id, h)
			}
			head := callWithRoom(t, "HEAD", n.url+"/v1/backup")
			if head.status != 200 || head.body != "" || head.header.Get(lockapi.HeaderRevision) != "1" {
				t.Errorf("HEAD by %s: %d %q %v", n.id, head.status, head.body, head.header)
			}
		}
	}
}

// TestBrokenBackupIsNone: if the state cannot be written completely, the answer
// breaks off, at the master and through a replica.
func TestBrokenBackupIsNone(t *testing.T) {
	t.Parallel()
	master, replica := startPair(t, nil)
	for _, size := range []int{0, 10, 3 << 20} {
		master.writes(size, errors.New("no more"))
		for _, n := range []*node{master, replica} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", n.url+"/v1/backup", nil)
			must(t, err)
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				continue // it broke off before any output
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				continue // on a slow machine forwarding may be too late for an answer
			}
			if err == nil {
				t.Errorf("%d bytes of state by %s: the answer of %d bytes ends as if it were whole", size, n.id, len(body))
			}
			if _, err := backup.Verify(strings.NewReader(string(body))); err == nil {
				t.Errorf("%d bytes of state by %s: it verifies", size, n.id)
			}
		}
	}
}

// TestFewBackupsAtATime: further backups are refused, and there is room again
// afterwards. A call that the master has not permitted takes no place.
func TestFewBackupsAtATime(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, n := range []*node{master, replica} {
		entered, leave := make(chan struct{}), make(chan struct{})
		wait := func() {
			entered <- struct{}{}
			<-leave
		}
		denied, done := make(chan reply, 3), make(chan reply, 2)
		begin := func(answers chan reply) {
			for range cap(answers) {
				go func() { answers <- call(t, "GET", n.url+"/v1/backup", "") }()
				select {
				case <-entered:
				case r := <-answers:
					t.Fatalf("%d %s", r.status, r.body)
				}
			}
		}
		master.setHook(func(context.Context, string) error {
			wait()
			return lockapi.Errorf(lockapi.CodePermissionDenied, "no")
		})
		begin(denied)
		master.setHook(nil)
		master.set(func() {
			master.backup = func(io.Writer) error {
				wait()
				return nil
			}
		})
		begin(done)
		e := call(t, "GET", n.url+"/v1/backup", "")
		e.wantCode(t, lockapi.CodeTooMany)
		if e.header.Get("Retry-After") != "5" {
			t.Errorf("%v", e.header)
		}
		close(leave)
		for range cap(done) {
			(<-done).wantStatus(t, 200)
		}
		for range cap(denied) {
			(<-denied).wantCode(t, lockapi.CodePermissionDenied)
		}
		master.set(func() { master.backup = nil })
		callWithRoom(t, "GET", n.url+"/v1/backup").wantStatus(t, 200)
	}
}

// callWithRoom repeats a call until there is room: the handler of an earlier
// call may still be running after its answer.
func callWithRoom(t *testing.T, method, url string) reply {
	t.Helper()
	for {
		if r := call(t, method, url, ""); r.status != http.StatusTooManyRequests {
			return r
		}
		runtime.Gosched()
	}
}

// TestBackupAtNoMaster: a caller that forbids forwarding gets the master's URL.
func TestBackupAtNoMaster(t *testing.T) {
	master, replica := startPair(t, nil)
	e := call(t, "GET", replica.url+"/v1/backup", "", lockapi.HeaderForward, lockapi.ForwardNever).wantCode(t, lockapi.CodeNotMaster)
	if e.Master != master.url {
		t.Errorf("%+v", e)
	}
	master.setHook(func(context.Context, string) error { return lockapi.Errorf(lockapi.CodePermissionDenied, "no") })
	call(t, "GET", replica.url+"/v1/backup", "").wantCode(t, lockapi.CodePermissionDenied)
	url, _ := breaking(t)
	lost := startReplica(t, url, nil)
	call(t, "GET", lost.url+"/v1/backup", "").wantCode(t, lockapi.CodeNoMaster)
}
