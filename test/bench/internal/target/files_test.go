package target

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// cabinet is the files of a replica.
type cabinet struct {
	mu       sync.Mutex // guards the rest
	revision uint64
	files    map[string]lockapi.File
	keys     []string // of idempotency, as writes came
}

// serveFile answers calls about files, and transactions of files.
func (r *replica) serveFile(w http.ResponseWriter, req *http.Request) {
	c := &r.cabinet
	c.mu.Lock()
	defer c.mu.Unlock()
	path := strings.TrimPrefix(req.URL.Path, lockapi.RouteFiles)
	body, _ := io.ReadAll(req.Body)
	if req.Method != http.MethodGet {
		c.keys = append(c.keys, req.Header.Get(lockapi.HeaderIdempotencyKey))
	}
	switch req.Method {
	case http.MethodGet:
		w.Header().Set(lockapi.HeaderRevision, strconv.FormatUint(c.revision, 10))
		if f, ok := c.files[path]; ok {
			_ = json.NewEncoder(w).Encode(f)
		} else {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(lockapi.Errorf(lockapi.CodeNotFound, "none"))
		}
	case http.MethodPut:
		now, there := c.files[path]
		match := req.Header.Get("If-Match")
		if there && req.Header.Get("If-None-Match") != "" || match != "" && match != fmt.Sprintf(`"%d"`, now.Revision) {
			e := lockapi.Errorf(lockapi.CodePrecondition, "it has changed")
			if there {
				e.Current = &now
			}
			w.WriteHeader(http.StatusPreconditionFailed)
			_ = json.NewEncoder(w).Encode(e)
			return
		}
		_ = json.NewEncoder(w).Encode(c.write(path, string(body)).FileStat)
	case http.MethodPost:
		_ = json.NewEncoder(w).Encode(c.transact(body))
	}
}

func (c *cabinet) write(path, content string) lockapi.File {
	c.revision++
	if c.files == nil {
		c.files = map[string]lockapi.File{}
	}
	sum := sha256.Sum256([]byte(content))
	f, ok := c.files[path]
	if !ok {
		f.Path, f.Instance = path, c.revision
	}
	f.Revision, f.Generation = c.revision, f.Generation+1
	f.Size, f.SHA256, f.Content = len(content), hex.EncodeToString(sum[:]), &content
	c.files[path] = f
	return f
}

func (c *cabinet) transact(body []byte) lockapi.TransactionResult {
	var t lockapi.Transaction
	_ = json.Unmarshal(body, &t)
	for _, condition := range t.If {
		if _, ok := c.files[condition.File]; !ok {
			return lockapi.TransactionResult{Revision: c.revision, Results: []lockapi.OperationResult{}}
		}
	}
	out := lockapi.TransactionResult{Succeeded: true}
	for _, o := range t.Then {
		f := c.write(o.Put.Path, *o.Put.Content)
		f.Content = nil
		out.Results = append(out.Results, lockapi.OperationResult{File: &f})
	}
	out.Revision = c.revision
	return out
}

// Both ways write the bytes as they are, read them, and transact; only the SDK
// has a key for each write.
func TestFilesBothWays(t *testing.T) {
	for _, via := range []string{SDK, HTTP} {
		t.Run(via, func(t *testing.T) {
			r, ctx := newReplica(t), bounded(t)
			c, err := NewClient(via, Way{URLs: []string{r.URL}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Open(ctx, 12*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(ctx)
			if c.ReadFile(ctx, "/a") == nil {
				t.Error("the reading of a file that is not there is no error")
			}
			if err := s.WriteFile(ctx, "/a", []byte("one\n\x00")); err != nil {
				t.Fatal(err)
			}
			if err := c.ReadFile(ctx, "/a"); err != nil {
				t.Error(err)
			}
			for _, c := range []struct {
				path string
				at   uint64
				want File
				err  error
			}{
				{"/c", 5, File{}, ErrChanged},
				{"/c", 0, File{2, []byte("new")}, nil},
				{"/c", 0, File{2, []byte("new")}, ErrChanged},
				{"/a", 2, File{1, []byte("one\n\x00")}, ErrChanged},
				{"/c", 2, File{3, []byte("new")}, nil},
			} {
				if got, err := s.Swap(ctx, c.path, c.at, []byte("new")); !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.err) {
					t.Errorf("swap %s at %d: %v, %v; want %v, %v", c.path, c.at, got, err, c.want, c.err)
				}
			}
			if err := s.Transact(ctx, []string{"/a"}, []string{"/a", "/b"}, []byte("two")); err != nil {
				t.Error(err)
			}
			if err := s.Transact(ctx, []string{"/none"}, []string{"/a"}, nil); !errors.Is(err, ErrAbsent) {
				t.Errorf("a condition that does not hold: %v, want ErrAbsent", err)
			}
			if a, b := r.cabinet.files["/a"], r.cabinet.files["/b"]; *a.Content != "two" || a.Generation != 2 || *b.Content != "two" {
				t.Errorf("the files are %+v and %+v", a, b)
			}
			for _, key := range r.cabinet.keys {
				if (key != "") != (via == SDK) {
					t.Errorf("a write has the key %q", key)
				}
			}
		})
	}
}
