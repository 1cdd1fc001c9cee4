package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/chaos/internal/exclusion"
	"github.com/stoutlock/stout/test/history"
)

// TestLost: a call is repeated if its outcome is unknown or there was no
// master, but not if it was refused.
func TestLost(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {errors.New("connection reset"), true}, {context.DeadlineExceeded, true},
		{lockapi.Errorf(lockapi.CodeOutcomeUnknown, "x"), true}, {fmt.Errorf("y: %w", lockapi.Errorf(lockapi.CodeNoMaster, "x")), true},
		{lockapi.Errorf(lockapi.CodeLockHeld, "x"), false}, {lockapi.Errorf(lockapi.CodeSessionNotFound, "x"), false},
	} {
		if got := lost(c.err); got != c.want {
			t.Errorf("lost(%v) = %v", c.err, got)
		}
	}
}

// TestTargetsGoTogether: all clients that want the same lock use modes and
// limits that the contract allows together.
func TestTargetsGoTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	limits, modes := map[string]int64{}, map[string]map[lockapi.Mode]bool{}
	for range 1000 {
		d := draw(r, 3)
		if modes[d.path] == nil {
			modes[d.path] = map[lockapi.Mode]bool{}
		}
		modes[d.path][d.mode] = true
		if d.mode == lockapi.Exclusive {
			if d.limit != 0 {
				t.Fatalf("%+v is exclusive with a limit", d)
			}
			continue
		}
		if known, ok := limits[d.path]; ok && known != d.limit {
			t.Fatalf("%s is asked for with the limits %d and %d", d.path, known, d.limit)
		}
		limits[d.path] = d.limit
	}
	if len(modes) != 4 || !modes["/chaos/3/document"][lockapi.Shared] || !modes["/chaos/3/document"][lockapi.Exclusive] {
		t.Errorf("drawn: %v", modes)
	}
}

// epochs is a client that records the begins of its epochs.
type epochs struct {
	worker
	began []int
	times []time.Time
}

func (w *epochs) work(ctx context.Context, _ *rand.Rand, epoch int) {
	w.began, w.times = append(w.began, epoch), append(w.times, time.Now())
	<-ctx.Done()
}

// TestFleetWorksInEpochs: a client begins a new epoch when the last one ends.
func TestFleetWorksInEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &epochs{}
		f := &Fleet{opts: Options{Epoch: 8 * time.Second}, workers: []worker{w}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		start := time.Now()
		f.Work(ctx)
		if fmt.Sprint(w.began) != "[0 1 2]" || w.times[2].Sub(start) != 16*time.Second || time.Since(start) != 20*time.Second {
			t.Errorf("epochs %v at %v, ended after %v", w.began, w.times, time.Since(start))
		}
	})
}

// TestEndedGrantsAreChecked: clients also ask about sequencers of grants that
// were released.
func TestEndedGrantsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &Options{URLs: []string{"http://r1"}, Recorder: history.NewRecorder(), Resource: exclusion.NewResource(), grants: &grants{}}
		w, token := newRaw("w", opts), 0
		w.http.Transport = opts.Recorder.Transport("w", transport(func(req *http.Request) string {
			if req.Method == http.MethodPut {
				var in lockapi.LockRequest
				if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
					t.Error(err)
				}
				token++
				return fmt.Sprintf(`{"path":"/l","session":"S","handle":%q,"mode":"exclusive","state":"held","token":%d,"sequencer":"exclusive:%d:/l"}`, in.Handle, token, token)
			}
			return `{"released":true,"state":"free"}`
		}))
		r, s := rand.New(rand.NewPCG(1, 1)), &rawSession{id: "S", ttl: time.Second, stop: func() {}}
		for range 300 {
			_ = w.round(t.Context(), r, s, target{path: "/l", mode: lockapi.Exclusive}) // nil, or errFroze
		}
		ended, checked := map[uint64]bool{}, 0
		for _, a := range opts.Recorder.Attempts() {
			switch {
			case a.Kind == history.Release:
				ended[a.Token] = true
			case a.Kind == history.Sequencer && ended[a.Token]:
				checked++
			}
		}
		if checked < 5 {
			t.Errorf("%d checks after the release of %d grants", checked, token)
		}
	})
}

// transport answers requests with the text that it returns.
type transport func(*http.Request) string

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(f(req))), Request: req}, nil
}
