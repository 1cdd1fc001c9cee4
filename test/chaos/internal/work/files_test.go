package work

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stoutlock/stout/test/history"
)

// TestContentsDiffer: all writes of a run have different contents, because an
// equal content could come from either write.
func TestContentsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range []*pen{{author: "files1"}, {author: "files11"}, {author: "files2"}} {
		for range 20 {
			text := string(p.text())
			if seen[text] {
				t.Errorf("%q comes twice", text)
			}
			seen[text] = true
		}
	}
}

// TestKeyedWritesAreSentAgain: a write with a key is repeated unchanged, with
// the same key, until it is answered.
func TestKeyedWritesAreSentAgain(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprint(r.Method, r.URL, r.Header.Get("Idempotency-Key"), string(body)))
		if len(got) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"code":"outcome_unknown"}`)
			return
		}
		w.WriteHeader(http.StatusPreconditionFailed)
		fmt.Fprint(w, `{"code":"precondition_failed","current":null}`)
	}))
	defer server.Close()
	opts := &Options{URLs: []string{server.URL}, Recorder: history.NewRecorder()}
	w := newRawFiles("w", opts)
	defer w.close()
	r := rand.New(rand.NewPCG(1, 1))
	_ = w.keyed(context.WithoutCancel(t.Context()), r, w.write(http.MethodPut, "/f", nil), nil)
	if len(got) != 3 || got[0] != got[1] || got[0] != got[2] {
		t.Errorf("sent %q", got)
	}
	all := opts.Recorder.Attempts()
	if len(all) != 3 || all[2].Outcome != history.Refused || all[0].Key == "" || all[0].Key != all[2].Key {
		t.Errorf("recorded %v", all)
	}
}
