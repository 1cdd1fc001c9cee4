package rehearse

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi"
)

// slowCell answers what one session asks for, and takes its time for releases.
type slowCell struct{ release time.Duration }

func (s slowCell) RoundTrip(r *http.Request) (*http.Response, error) {
	var answer any = lockapi.Session{ID: "s", TTLMS: 12_000, Epoch: 1}
	switch {
	case r.Method == http.MethodPut:
		var asked lockapi.LockRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			return nil, err
		}
		answer = lockapi.Grant{Path: "/r/app", State: lockapi.StateHeld, Session: "s", Handle: asked.Handle, Mode: lockapi.Exclusive, Token: 1, Sequencer: "exclusive:1:/r/app"}
	case r.Method == http.MethodDelete:
		time.Sleep(s.release)
		answer = lockapi.Released{Released: true}
	case strings.HasSuffix(r.URL.Path, "/keepalive"):
		time.Sleep(time.Second)
		answer = lockapi.Keepalive{TTLMS: 12_000, HeldMS: 1000, Epoch: 1}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// TestSlowRelease: a call of its own that meets the change of master as it gives its
// lock back is as slow as one that meets it before.
func TestSlowRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		c, err := client.Config{
			URLs: []string{"http://r1"}, OnlyURLs: true, AnyCell: true, Transport: slowCell{700 * time.Millisecond},
			Clock: func() time.Duration { return time.Since(begun) },
		}.New()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		o := &own{c: c, path: "/r"}
		if o.waiter, err = c.NewSession(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer o.waiter.Close(t.Context())
		o.call(t.Context())
		if o.calls != 1 || o.failed != 0 || o.slowest < 700*time.Millisecond {
			t.Errorf("%d calls, %d failed, the slowest took %v", o.calls, o.failed, o.slowest)
		}
	})
}
