package fence_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stoutlock/stout/client/fence"
)

// to returns a change to a new content.
func to(content string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(content), nil }
}

func same(content []byte) ([]byte, error) { return content, nil }

// expectObject compares an object with the content and token that it should
// have.
func expectObject(t *testing.T, o fence.Objects, want string, token uint64) {
	t.Helper()
	content, got, err := o.Get(t.Context(), "k")
	if err != nil || string(content) != want || got != token {
		t.Errorf("the object is %q with token %d, %v; want %q with %d", content, got, err, want, token)
	}
}

// TestLateObject: a late write is refused, also when it has read the object
// before the next holder wrote it, and when that holder has not changed it.
func TestLateObject(t *testing.T) {
	for name, next := range map[string]func([]byte) ([]byte, error){"another content": to("new"), "the same content": same} {
		t.Run(name, func(t *testing.T) {
			_, b := newStore(t)
			o := fence.Objects{Bucket: b}
			if err := o.Update(t.Context(), "k", 5, to("old")); err != nil {
				t.Fatal(err)
			}
			reads := 0
			err := o.Update(t.Context(), "k", 5, func([]byte) ([]byte, error) {
				if reads++; reads == 1 { // it pauses here
					if err := o.Update(t.Context(), "k", 6, next); err != nil {
						t.Error(err)
					}
				}
				return []byte("late"), nil
			})
			stale, ok := errors.AsType[*fence.StaleError](err)
			if !ok || !errors.Is(err, fence.ErrStale) || *stale != (fence.StaleError{Resource: "k", Token: 5, Highest: 6}) {
				t.Errorf("a late write: %v", err)
			}
			if reads != 1 {
				t.Errorf("the late write was prepared %d times", reads)
			}
			want, _ := next([]byte("old"))
			expectObject(t, o, string(want), 6)
		})
	}
}

// TestFirstObject: of two first writes one wins, and the other one sees it.
func TestFirstObject(t *testing.T) {
	_, b := newStore(t)
	o := fence.Objects{Bucket: b}
	if _, _, err := o.Get(t.Context(), "k"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no object: %v", err)
	}
	err := o.Update(t.Context(), "k", 5, func(content []byte) ([]byte, error) {
		if content == nil {
			return []byte("first"), o.Update(t.Context(), "k", 5, to("other"))
		}
		return append(content, " and first"...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expectObject(t, o, "other and first", 5)
}

// TestConcurrentObjects: each of many writers with one token has its effect, and
// tokens only rise.
func TestConcurrentObjects(t *testing.T) {
	_, b := newStore(t)
	o := fence.Objects{Bucket: b}
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			token := uint64(i/5 + 1)
			err := o.Update(t.Context(), "k", token, func(content []byte) ([]byte, error) {
				return fmt.Appendf(content, "%d\n", token), nil
			})
			if err != nil && !errors.Is(err, fence.ErrStale) {
				t.Error(err)
			}
			if errors.Is(err, fence.ErrStale) && token == 4 {
				t.Errorf("the highest token is stale: %v", err)
			}
		})
	}
	writers.Wait()
	content, token, err := o.Get(t.Context(), "k")
	if err != nil || token != 4 {
		t.Fatalf("token %d, %v", token, err)
	}
	highest, last := 0, 0
	for _, line := range splitLines(content) {
		n, err := strconv.Atoi(line)
		if err != nil || n < highest {
			t.Fatalf("token %q after %d: %q", line, highest, content)
		}
		if highest = n; n == 4 {
			last++
		}
	}
	if last != 5 {
		t.Errorf("%d of 5 writes with the last token: %q", last, content)
	}
}

// TestRefusedObjects: what is not a success is an error, and nothing else is
// written.
func TestRefusedObjects(t *testing.T) {
	s, b := newStore(t)
	o := fence.Objects{Bucket: b}
	s.objects["/k"] = []byte("plain")
	expectObject(t, o, "plain", 0)
	failed := errors.New("no change")
	if err := o.Update(t.Context(), "k", 5, func([]byte) ([]byte, error) { return nil, failed }); err != failed {
		t.Errorf("a failed change: %v", err)
	}
	for _, token := range []uint64{0, 1 << 53} {
		if err := o.Update(t.Context(), "k", token, to("x")); err == nil {
			t.Errorf("token %d was accepted", token)
		}
	}
	s.refuse = func(r *http.Request) int {
		if r.Method == http.MethodPut {
			return http.StatusInternalServerError
		}
		return 0
	}
	if err := o.Update(t.Context(), "k", 5, to("x")); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a failing store: %v", err)
	}
	s.refuse = func(r *http.Request) int {
		if r.Method == http.MethodPut {
			return http.StatusPreconditionFailed
		}
		return 0
	}
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := o.Update(ctx, "k", 5, func([]byte) ([]byte, error) {
		if tries++; tries == 3 {
			cancel()
		}
		return []byte("x"), nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("without end: %v", err)
	}
	s.refuse = nil
	expectObject(t, o, "plain", 0)
	if err := (fence.Objects{Bucket: noETag{b}}).Update(t.Context(), "k", 5, to("x")); err == nil {
		t.Error("a store without ETags was accepted")
	}
}

// noETag is a bucket without ETags.
type noETag struct{ bucket }

func (b noETag) Get(ctx context.Context, key string) ([]byte, string, error) {
	content, _, err := b.bucket.Get(ctx, key)
	return content, "", err
}
