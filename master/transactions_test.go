package master

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// transacting makes a transaction that is written in JSON.
func transacting(t *testing.T, m *Master, key, body string) (TransactionDone, error) {
	t.Helper()
	req := TransactionRequest{Key: key}
	if err := json.Unmarshal([]byte(body), &req.Transaction); err != nil {
		t.Fatal(err)
	}
	if err := req.Validate(); err != nil {
		t.Fatal(err)
	}
	return m.Transact(t.Context(), req)
}

// TestTransaction: each operation once, and what it answers.
func TestTransaction(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		mustHold(t, m, "/old", want(s))
		at := put(t, m, "/f", "x").Revision
		done, err := transacting(t, m, "", `{"session":"`+s+`",
			"if":[{"file":"/f","exists":true},{"file":"/none","exists":false},{"session":"`+s+`"},{"lock":"/l","state":"free"}],
			"then":[{"put":{"path":"/f","content":"y","ephemeral":true}},{"create":{"path":"/g","content_base64":"/w=="}},{"create_sequential":{"path":"/q/"}},
				{"get":{"path":"/g"}},{"get":{"path":"/none"}},{"delete":{"path":"/g"}},{"delete":{"path":"/g"}},
				{"acquire":{"path":"/l"}},{"acquire":{"path":"/m","mode":"shared","limit":2}},{"release":{"path":"/old"}},{"release":{"path":"/old"}}],
			"else":[{"get":{"path":"/f"}}]}`)
		if err != nil || !done.Succeeded || done.Revision != at+7 || len(done.Results) != 11 {
			t.Fatalf("%+v, %v", done, err)
		}
		r := done.Results
		if f := r[0].File; f.Session != s || f.Revision != at+1 || f.Generation != 2 || f.Content != nil {
			t.Errorf("put: %+v", f)
		}
		if f := r[2].File; !strings.HasPrefix(f.Path, "/q/00000000000") || f.Revision != at+3 {
			t.Errorf("sequential: %+v", f)
		}
		if f := r[3].File; string(f.ContentBase64) != "\xff" || f.Revision != at+2 {
			t.Errorf("get: %+v", f)
		}
		if r[4] != (lockapi.OperationResult{}) || !r[5].Deleted.Deleted || r[6].Deleted.Deleted {
			t.Errorf("get and delete: %+v", r[4:7])
		}
		if g := r[7].Grant; g.State != lockapi.StateHeld || g.Mode != lockapi.Exclusive || g.Token == 0 {
			t.Errorf("acquire: %+v", g)
		}
		if !r[9].Released.Released || r[10].Released.Released {
			t.Errorf("release: %+v", r[9:])
		}
		other, err := transacting(t, m, "", `{"if":[{"lock":"/l","state":"free"}],"then":[{"put":{"path":"/f"}}],"else":[{"get":{"path":"/f"}}]}`)
		if err != nil || other.Succeeded || *other.Results[0].File.Content != "y" || other.Revision != done.Revision {
			t.Errorf("%+v, %v", other, err)
		}
	})
}

// TestTransactionThatCantBeDone: it says which operation, and why, and nothing of it
// is done.
func TestTransactionThatCantBeDone(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s, other := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		mustHold(t, m, "/l", want(other))
		at := put(t, m, "/f", "x").Revision
		for _, c := range []struct {
			then    string
			n       int
			holders int
			current uint64
		}{
			{`{"put":{"path":"/g"}},{"acquire":{"path":"/free"}},{"acquire":{"path":"/l"}}`, 2, 1, 0},
			{`{"put":{"path":"/g"}},{"create":{"path":"/f"}}`, 1, 0, at},
			{`{"put":{"path":"/f"}},{"create":{"path":"/f"}}`, 1, 0, at},
			{`{"create":{"path":"/g"}},{"create":{"path":"/g"}}`, 1, 0, 0},
		} {
			for _, key := range []string{"", c.then, c.then} {
				_, err := transacting(t, m, key, `{"session":"`+s+`","then":[`+c.then+`]}`)
				e := new(lockapi.Error)
				if !errors.As(err, &e) || e.Code != lockapi.CodePrecondition || e.Operation == nil || *e.Operation != c.n || len(e.Holders) != c.holders {
					t.Fatalf("%s: %+v", c.then, err)
				}
				if (e.Current != nil) != (c.current != 0) || e.Current != nil && e.Current.Revision != c.current {
					t.Errorf("%s: current %+v", c.then, e.Current)
				}
			}
		}
		if l, err := m.Lock(t.Context(), LockQuery{Path: "/free"}); err != nil || l.State != lockapi.StateFree {
			t.Errorf("%+v, %v", l, err)
		}
		if _, err := m.File(t.Context(), FileQuery{Path: "/g"}); !errors.Is(err, lockapi.CodeNotFound) {
			t.Error(err)
		}
		if _, err := transacting(t, m, "", `{"session":"nobody"}`); !errors.Is(err, lockapi.CodeSessionNotFound) {
			t.Error(err)
		}
	})
}

// TestTransactionOnce: under a key it is done once, and an answer that is too long to
// be remembered is refused before anything is done.
func TestTransactionOnce(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		body := `{"session":"` + s + `","then":[{"create_sequential":{"path":"/q/"}},{"acquire":{"path":"/l"}}]}`
		first, err := transacting(t, m, "k", body)
		if err != nil || first.Replayed {
			t.Fatalf("%+v, %v", first, err)
		}
		again, err := transacting(t, m, "k", body)
		if err != nil || !again.Replayed || again.Revision != first.Revision || again.Results[0].File.Path != first.Results[0].File.Path || again.Results[1].Grant.Token != first.Results[1].Grant.Token {
			t.Errorf("%+v, %v", again, err)
		}
		if _, err := transacting(t, m, "k", `{"session":"`+s+`"}`); !errors.Is(err, lockapi.CodeConflict) {
			t.Error(err)
		}
		if _, err := m.WriteFile(t.Context(), FileWrite{Path: "/q/", Session: s, Key: "k", Sequential: true}); !errors.Is(err, lockapi.CodeConflict) {
			t.Error(err)
		}
		put(t, m, "/long", strings.Repeat("x", 66<<10))
		long := `{"session":"` + s + `","then":[{"put":{"path":"/g"}},{"get":{"path":"/long"}}]}`
		if _, err := transacting(t, m, "k2", long); !errors.Is(err, lockapi.CodeInvalidArgument) {
			t.Error(err)
		}
		if _, err := m.File(t.Context(), FileQuery{Path: "/g"}); !errors.Is(err, lockapi.CodeNotFound) {
			t.Error(err)
		}
		if done, err := transacting(t, m, "", long); err != nil || len(*done.Results[1].File.Content) != 66<<10 {
			t.Error(err)
		}
		if _, err := transacting(t, m, "k2", `{"session":"`+s+`"}`); err != nil { // the key is free still
			t.Error(err)
		}
	})
}

// TestTransactionQuota: locks of transactions count as all others do.
func TestTransactionQuota(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		m.opts.Quotas.Holds = 1
		s := newSession(t, m, time.Minute)
		if _, err := transacting(t, m, "", `{"session":"`+s+`","then":[{"acquire":{"path":"/a"}},{"acquire":{"path":"/b"}}]}`); !errors.Is(err, lockapi.CodeTooMany) {
			t.Error(err)
		}
		if done, err := transacting(t, m, "", `{"session":"`+s+`","then":[{"acquire":{"path":"/a"}},{"acquire":{"path":"/a"}}]}`); err != nil || done.Results[0].Grant.Token != done.Results[1].Grant.Token {
			t.Errorf("%+v, %v", done, err)
		}
	})
}
