package fence_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stoutlock/stout/client/fence"
)

// objectStore is an object store in memory, served over HTTP. As in S3, an
// object's ETag depends on its content only.
type objectStore struct {
	mu      sync.Mutex // guards objects
	objects map[string][]byte
	refuse  func(*http.Request) int // if set, a status other than 0 is the answer
}

func etagOf(content []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(content)) }

func (s *objectStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if s.refuse != nil {
		if status := s.refuse(r); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content, exists := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodGet && !exists:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", etagOf(content))
		_, _ = w.Write(content)
	case r.Header.Get("If-None-Match") == "*" && exists,
		r.Header.Get("If-Match") != "" && (!exists || r.Header.Get("If-Match") != etagOf(content)):
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		s.objects[r.URL.Path] = body
		w.Header().Set("ETag", etagOf(body))
	}
}

// newStore serves an object store until the test ends.
func newStore(t *testing.T) (*objectStore, bucket) {
	s := &objectStore{objects: make(map[string][]byte)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, bucket{server.URL}
}

// bucket is an object store at a URL, reached by conditional requests. S3, GCS
// and Azure have SDKs that set the same headers.
type bucket struct{ url string }

// Get implements fence.Bucket.
func (b bucket) Get(ctx context.Context, key string) (content []byte, etag string, err error) {
	resp, err := b.do(ctx, http.MethodGet, key, nil, "", "")
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		content, err = io.ReadAll(resp.Body)
		return content, resp.Header.Get("ETag"), err
	case http.StatusNotFound:
		return nil, "", fs.ErrNotExist
	}
	return nil, "", fmt.Errorf("get %s: %s", key, resp.Status)
}

// Put implements fence.Bucket.
func (b bucket) Put(ctx context.Context, key string, content []byte, etag string) error {
	condition := "If-Match"
	if etag == "" {
		condition, etag = "If-None-Match", "*"
	}
	resp, err := b.do(ctx, http.MethodPut, key, content, condition, etag)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusPreconditionFailed:
		return fence.ErrChanged
	}
	return fmt.Errorf("put %s: %s", key, resp.Status)
}

func (b bucket) do(ctx context.Context, method, key string, content []byte, condition, etag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.url+"/"+key, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if condition != "" {
		req.Header.Set(condition, etag)
	}
	return http.DefaultClient.Do(req)
}
