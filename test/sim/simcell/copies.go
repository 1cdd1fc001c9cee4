package simcell

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// Copies of requests arrive late (network.repeat). The answer to a request does
// not hold for a later copy. A lock that was refused may be granted to the
// copy, and a write without effect may have one.

// repeatable reports whether the contract allows a request to be repeated: it
// has a key, or identifies its own effect.
func repeatable(q *http.Request) bool {
	at := q.URL.Path
	named := strings.HasPrefix(at, lockapi.RouteLocks) || strings.HasPrefix(at, lockapi.RouteSessions)
	switch {
	case q.Header.Get(lockapi.HeaderIdempotencyKey) != "":
		return true
	case q.Method == http.MethodPost:
		return named && strings.HasSuffix(at, "/keepalive") || at == lockapi.RouteKeepalives
	}
	return named && q.Method != http.MethodGet
}

// repeated records that a copy of a request arrives later.
func (o *oracle) repeated(q *http.Request, body []byte) {
	pairs, _ := requesters(q, body)
	for _, p := range pairs {
		o.copies[p] = true
	}
	if p, _ := releaser(q); q.Method == http.MethodDelete {
		o.copies[p] = true
	}
	for _, content := range contents(body) {
		if w := o.revisions.writes[content]; w != nil {
			w.repeated = true
		}
	}
}

// contents returns the contents of the files that a request writes.
func contents(body []byte) []string {
	all := []string{string(body)}
	var t lockapi.Transaction
	if json.Unmarshal(body, &t) != nil {
		return all
	}
	for _, op := range slices.Concat(t.Then, t.Else) {
		for _, w := range []*lockapi.WriteOperation{op.Put, op.Create, op.CreateSequential} {
			switch {
			case w == nil:
			case w.Content != nil:
				all = append(all, *w.Content)
			case w.ContentBase64 != nil:
				all = append(all, string(*w.ContentBase64))
			}
		}
	}
	return all
}
