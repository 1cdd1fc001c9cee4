package peers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi"
)

// respondent is a replica that takes a while to answer.
type respondent struct{ asked atomic.Int64 }

func (r *respondent) RoundTrip(req *http.Request) (*http.Response, error) {
	r.asked.Add(1)
	select {
	case <-time.After(10 * time.Millisecond):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	body := `{"id":"r2","last_contact_ms":5,"promise":{"to":"r1","remaining_ms":100}}`
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestCrowdSharesProbes: a few callers each cause a new question. In a crowd
// most callers share an answer, and a caller that leaves does not affect the
// others.
func TestCrowdSharesProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(time.Second, nil)
		to := &respondent{}
		crowd := func(n int) {
			var all sync.WaitGroup
			for i := range n {
				ctx, leave := context.WithCancel(t.Context())
				all.Go(func() {
					got, age, err := o.ask(ctx, to, "r2")
					if err != nil && i > 0 || got.ID != "r2" && err == nil || age > 10*time.Millisecond {
						t.Errorf("caller %d: %+v after %v, %v", i, got, age, err)
					}
				})
				synctest.Wait()
				if i == 0 {
					leave()
				} else {
					defer leave()
				}
			}
			all.Wait()
		}
		for n, want := range map[int]int64{1: 1, 3: 3, 100: probesAtOnce} {
			to.asked.Store(0)
			crowd(n)
			if got := to.asked.Load(); got != want {
				t.Errorf("%d callers had it asked %d times; want %d", n, got, want)
			}
			time.Sleep(probeFresh)
		}
		// An answer is shared for a while, but no longer.
		crowd(probesAtOnce)
		time.Sleep(50 * time.Millisecond)
		if _, age, err := o.ask(t.Context(), to, "r2"); age != 60*time.Millisecond || err != nil {
			t.Errorf("an answer of %v ago, %v", age, err)
		}
		time.Sleep(40 * time.Millisecond)
		if _, age, err := o.ask(t.Context(), to, "r2"); age != 0 || err != nil {
			t.Errorf("an answer of %v ago, %v", age, err)
		}
	})
}

func TestAged(t *testing.T) {
	r := lockapi.Replica{LastContactMS: 5, Promise: &lockapi.Promise{To: "r1", RemainingMS: 100}}
	if got := aged(r, 40*time.Millisecond); got.LastContactMS != 45 || got.Promise.RemainingMS != 60 || r.Promise.RemainingMS != 100 {
		t.Errorf("%+v %+v", got, got.Promise)
	}
	if got := aged(r, 100*time.Millisecond); got.Promise != nil {
		t.Errorf("a promise that is over: %+v", got.Promise)
	}
}
