package recipe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/lockapi"
)

// meddler is a transport between a program and its cell that can answer in the
// cell's place.
type meddler struct {
	cell http.RoundTripper

	mu     sync.Mutex // guards meddle
	meddle func(*http.Request) (*http.Response, error)
}

func (m *meddler) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	meddle := m.meddle
	m.mu.Unlock()
	if meddle != nil {
		if resp, err := meddle(req); resp != nil || err != nil {
			return resp, err
		}
	}
	return m.cell.RoundTrip(req)
}

// set sets the function that answers; if it returns nil, nil, the cell answers.
func (m *meddler) set(meddle func(*http.Request) (*http.Response, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddle = meddle
}

func newMeddled(c *stouttest.Cell, opts ...func(*client.Config)) (*client.Client, *meddler) {
	m := new(meddler)
	return c.Client(append(opts, func(to *client.Config) { m.cell, to.Transport = to.Transport, m })...), m
}

// noEvents refuses requests for events, and reports the first refusal on a
// channel.
func noEvents() (meddle func(*http.Request) (*http.Response, error), refused <-chan bool) {
	once := make(chan bool, 1)
	return func(req *http.Request) (*http.Response, error) {
		if req.URL.Path != lockapi.RouteEvents {
			return nil, nil
		}
		select {
		case once <- true:
		default:
		}
		return problem(req, lockapi.CodeInvalidArgument), nil
	}, once
}

// problem returns a refusal.
func problem(req *http.Request, code lockapi.Code) *http.Response {
	text := fmt.Sprintf(`{"type":"about:blank","title":"x","status":%d,"code":%q,"detail":"not now"}`, code.Status(), code)
	return &http.Response{
		StatusCode: code.Status(), Header: http.Header{"Content-Type": {"application/problem+json"}},
		Body: io.NopCloser(strings.NewReader(text)), Request: req,
	}
}

// TestLargeJobs: a job may be as large as a file.
func TestLargeJobs(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, stop := context.WithCancel(bounded(t))
		s := sessionFor(t, c, c.Client(), "worker", longTTL)
		q, err := recipe.NewQueue("/t/")
		must(t, err)
		large := bytes.Repeat([]byte("x"), lockapi.MaxFileBytes)
		must(t, second(q.Add(ctx, s, large)))
		err = q.Work(ctx, s.Client(), func(_ context.Context, job recipe.Job) error {
			if !bytes.Equal(job.Content, large) {
				t.Errorf("a job of %d bytes", len(job.Content))
			}
			stop()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestWorkAfterRefusal: a worker that got no events for a while finds the jobs
// again.
func TestWorkAfterRefusal(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx := bounded(t)
		m, meddler := newMeddled(c)
		q, err := recipe.NewQueue("/t/")
		must(t, err)
		other, s := sessionFor(t, c, c.Client(), "other", longTTL), sessionFor(t, c, m, "worker", longTTL)
		must(t, second(q.Add(ctx, other, []byte("job"))))
		refuse, refused := noEvents()
		meddler.set(refuse)
		done := make(chan string, 1)
		working, stop := context.WithCancel(ctx)
		var worker sync.WaitGroup
		defer worker.Wait()
		defer stop()
		once, finish := context.WithCancel(ctx)
		_ = q.Work(once, other.Client(), func(context.Context, recipe.Job) error {
			worker.Go(func() {
				_ = q.Work(working, s.Client(), func(_ context.Context, job recipe.Job) error {
					done <- string(job.Content)
					return nil
				})
			})
			<-refused // the worker knows that the job is taken
			finish()
			return errors.New("not by this one")
		})
		meddler.set(nil)
		receive(t, done, "the job is done", func(job string) bool { return job == "job" })
	})
}

// TestFailedJob: a worker that has failed leaves the job to others for a
// second.
func TestFailedJob(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		s := sessionFor(t, c, c.Client(), "worker", longTTL)
		q, err := recipe.NewQueue("/t/")
		must(t, err)
		working, stop := context.WithCancel(bounded(t))
		must(t, second(q.Add(working, s, nil)))
		var failed time.Time
		_ = q.Work(working, s.Client(), func(ctx context.Context, job recipe.Job) error {
			if !failed.IsZero() {
				if left := time.Since(failed); left < time.Second {
					t.Errorf("it was tried again after %s", left)
				}
				stop()
				return nil
			}
			<-time.After(1100 * time.Millisecond) // the job's duration
			failed = time.Now()
			return errors.New("not this time")
		})
	})
}

// TestUntoldProclamation: an abandoned campaign leaves no value that names a
// leader, even if the answer to its write got lost.
func TestUntoldProclamation(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, cancel := context.WithCancel(bounded(t))
		m, meddler := newMeddled(c)
		s, path := sessionFor(t, c, m, "candidate", longTTL), "/t"
		meddler.set(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodPut || !strings.HasPrefix(req.URL.Path, lockapi.RouteFiles) {
				return nil, nil
			}
			resp, err := meddler.cell.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			cancel()
			return nil, errors.New("the answer is lost")
		})
		if _, err := recipe.Campaign(ctx, s, path, []byte("me")); !errors.Is(err, context.Canceled) {
			t.Errorf("the campaign ended with %v", err)
		}
		if now, err := recipe.Now(bounded(t), m, path); err != nil || now.Revision != 0 {
			t.Errorf("%q leads, %v", now.Value, err)
		}
	})
}

// TestSlowOpening: if a session ends before its opening is confirmed, Lead
// opens another.
func TestSlowOpening(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		m, meddler := newMeddled(c, func(to *client.Config) { to.Grace = time.Millisecond })
		var opened, kept atomic.Int32
		meddler.set(func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Path == lockapi.RouteSessions && opened.Add(1) == 1:
				resp, err := meddler.cell.RoundTrip(req)
				<-time.After(1500 * time.Millisecond)
				return resp, err
			case strings.HasSuffix(req.URL.Path, "/keepalive") && kept.Add(1) == 1:
				return nil, errors.New("lost")
			}
			return nil, nil
		})
		leads := func(context.Context, *recipe.Leadership) error { return nil }
		must(t, recipe.Lead(ctx, m, path, nil, recipe.Callbacks{Started: leads}, client.TTL(time.Second)))
	})
}

// TestUnwrittenPeriod: a machine that cannot record a finished job does not
// repeat it.
func TestUnwrittenPeriod(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, stop := context.WithCancel(bounded(t))
		m, meddler := newMeddled(c)
		path := "/t"
		var tries, jobs atomic.Int32
		meddler.set(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodPut || req.URL.Path != lockapi.RouteFiles+path {
				return nil, nil
			}
			if tries.Add(1) == 2 {
				stop()
			}
			return problem(req, lockapi.CodeTooMany), nil
		})
		err := recipe.EachPeriod(ctx, m, path, 1000*time.Hour, func(context.Context, time.Time, *client.Held) error {
			jobs.Add(1)
			return nil
		})
		if !errors.Is(err, context.Canceled) || jobs.Load() != 1 {
			t.Errorf("%d jobs were done, %v", jobs.Load(), err)
		}
	})
}

// TestBadNames: an invalid path is refused, not retried forever or taken for
// another path.
func TestBadNames(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx := bounded(t)
		s, dir := sessionFor(t, c, c.Client(), "any", longTTL), "/t"
		for name, call := range map[string]func() error{
			"period":    func() error { return recipe.EachPeriod(ctx, s.Client(), dir+"/", time.Hour, nil) },
			"no name":   func() error { return recipe.Join(ctx, s, dir+"/", "", nil) },
			"no member": func() error { return recipe.Join(ctx, s, dir+"/", "a/b", nil) },
			"no group":  func() error { return recipe.Join(ctx, s, dir, "a", nil) },
			"leave":     func() error { return recipe.Leave(ctx, s, dir, "a") },
			"stay":      func() error { return recipe.Stay(ctx, s.Client(), dir, "a", nil) },
			"meeting":   func() error { return recipe.Meet(ctx, s, dir, "a", 1) },
			"members": func() error {
				for _, err := range recipe.Members(ctx, s.Client(), dir) {
					return err
				}
				return nil
			},
		} {
			if err := call(); !errors.Is(err, client.ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// A subdirectory is another group.
		for _, err := range []error{recipe.Join(ctx, s, dir+"/", "a", nil), recipe.Join(ctx, s, dir+"/b/", "c", nil)} {
			must(t, err)
		}
		for members, err := range recipe.Members(ctx, s.Client(), dir+"/") {
			if err != nil || len(members) != 1 || members[0].Name != "a" {
				t.Errorf("members are %v, %v", members, err)
			}
			break
		}
	})
}
