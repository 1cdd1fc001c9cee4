package master

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// transacting makes a transaction that is written in JSON.
func transacting(t *testing.T, m *Master, key, body string) (TransactionDone, error) {
	t.Helper()
	req := &lockapi.Transact{Key: key}
	must(t, json.Unmarshal([]byte(body), &req.Transaction))
	must(t, req.Validate())
	return m.Transact(t.Context(), &Caller{}, req)
}

// TestTransaction: each operation once, with its result.
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

// TestTransactionThatCantBeDone: the error names the operation and the reason,
// and nothing is changed.
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
			first := ""
			for _, key := range []string{"", c.then, c.then} {
				_, err := transacting(t, m, key, `{"session":"`+s+`","then":[`+c.then+`]}`)
				e := new(lockapi.Error)
				if !errors.As(err, &e) || e.Code != lockapi.CodePrecondition || e.Operation == nil || *e.Operation != c.n || len(e.Holders) != c.holders {
					t.Fatalf("%s: %+v", c.then, err)
				}
				if (e.Current != nil) != (c.current != 0) || e.Current != nil && e.Current.Revision != c.current {
					t.Errorf("%s: current %+v", c.then, e.Current)
				}
				if first = cmp.Or(first, e.Detail); e.Detail != first || strings.Count(first, "nothing was changed") != 1 {
					t.Errorf("%s: %q, after %q", c.then, e.Detail, first)
				}
			}
		}
		if l, err := m.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/free"}); err != nil || l.State != lockapi.StateFree {
			t.Errorf("%+v, %v", l, err)
		}
		if _, err := m.GetFile(t.Context(), &Read{}, &lockapi.GetFile{Path: "/g"}); !errors.Is(err, lockapi.CodeNotFound) {
			t.Error(err)
		}
		if _, err := transacting(t, m, "", `{"session":"nobody"}`); !errors.Is(err, lockapi.CodeSessionNotFound) {
			t.Error(err)
		}
	})
}

// TestRefusedLockIsToldTheSameAgain: a replay shows the holder at that time,
// not the present one.
func TestRefusedLockIsToldTheSameAgain(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s, other := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		held := mustHold(t, m, "/l", want(other))
		body := `{"session":"` + s + `","then":[{"acquire":{"path":"/l"}}]}`
		_, first := transacting(t, m, "k", body)
		e := new(lockapi.Error)
		if !errors.As(first, &e) || e.Replayed || len(e.Holders) != 1 || e.Holders[0].Token != held.Token {
			t.Fatalf("%+v", first)
		}
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: other}))
		_, err := transacting(t, m, "k", body)
		again := new(lockapi.Error)
		if !errors.As(err, &again) || !again.Replayed {
			t.Fatalf("%+v", err)
		}
		if again.Replayed = false; !reflect.DeepEqual(again, e) {
			t.Errorf("again %+v, first %+v", again, e)
		}
	})
}

// TestReplayTakesNothingBack: a replay of an earlier grant does not make the
// office forget that the present grant was delivered.
func TestReplayTakesNothingBack(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s, other := newSession(t, m, time.Minute), newSession(t, m, time.Minute)
		body := `{"session":"` + s + `","then":[{"acquire":{"path":"/l"}},{"release":{"path":"/l"}}]}`
		must(t, second(transacting(t, m, "k", body)))
		held := mustHold(t, m, "/l", want(other))
		a := newAcquire(openOffice(t, n), &Caller{}, &lockapi.AcquireLock{Path: "/l", LockRequest: want(s, func(r *lockapi.LockRequest) { r.WaitMS = 10_000 })})
		a.enter()
		time.AfterFunc(time.Second, func() {
			_, _ = m.ReleaseLock(context.Background(), &Caller{}, &lockapi.ReleaseLock{Session: other, Path: "/l", Token: held.Token})
		})
		mine, err := a.run(t.Context())
		must(t, err)
		if again, err := transacting(t, m, "k", body); err != nil || !again.Replayed {
			t.Fatalf("%+v, %v", again, err)
		}
		a.exit()
		time.Sleep(time.Second)
		if l, err := m.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/l"}); err != nil || len(l.Holders) != 1 || l.Holders[0].Token != mine.Token {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

// TestTransactionOnce: a transaction with a key is made once. It is refused
// beforehand if its answer is too long to be remembered.
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
		if _, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/q/", Session: s, Key: "k", Sequential: true}); !errors.Is(err, lockapi.CodeConflict) {
			t.Error(err)
		}
		put(t, m, "/long", strings.Repeat("x", 66<<10))
		long := `{"session":"` + s + `","then":[{"put":{"path":"/g"}},{"get":{"path":"/long"}}]}`
		if _, err := transacting(t, m, "k2", long); !errors.Is(err, lockapi.CodeInvalidArgument) {
			t.Error(err)
		}
		if _, err := m.GetFile(t.Context(), &Read{}, &lockapi.GetFile{Path: "/g"}); !errors.Is(err, lockapi.CodeNotFound) {
			t.Error(err)
		}
		put(t, m, "/control", strings.Repeat("\x01", 12<<10)) // six bytes each in JSON
		if _, err := transacting(t, m, "k2", `{"session":"`+s+`","then":[{"get":{"path":"/control"}}]}`); !errors.Is(err, lockapi.CodeInvalidArgument) {
			t.Error(err)
		}
		if done, err := transacting(t, m, "", long); err != nil || len(*done.Results[1].File.Content) != 66<<10 {
			t.Error(err)
		}
		if _, err := transacting(t, m, "k2", `{"session":"`+s+`"}`); err != nil { // the key is still unused
			t.Error(err)
		}
	})
}

// TestTransactionQuota: locks of transactions count like all others.
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

// TestLargestTransactions: the log has room for every transaction that the
// contract allows. A larger one is refused without ending the office.
func TestLargestTransactions(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		pass(time.Minute) // until the cell's level is raised
		s := newSession(t, m, time.Minute)
		long := strings.Repeat("/"+strings.Repeat("p", 255), 4)
		for name, parts := range map[string][]string{
			"many files":   slices.Repeat([]string{`{"put":{"path":"/a","content":"` + strings.Repeat("x", 4<<10-16) + `"}}`}, 127),
			"one file":     {`{"put":{"path":"/a","content":"` + strings.Repeat("x", 256<<10) + `"}}`, `{"put":{"path":"/a","content":"` + strings.Repeat("x", 255<<10) + `"}}`},
			"empty files":  slices.Repeat([]string{`{"put":{"path":"/a"}}`}, 128),
			"locks":        slices.Repeat([]string{`{"acquire":{"path":"/a"}}`, `{"release":{"path":"/a"}}`}, 64),
			"long paths":   slices.Repeat([]string{`{"put":{"path":"` + long + `","content":"` + strings.Repeat("x", 3<<10-80) + `"}}`}, 127),
			"long handles": slices.Repeat([]string{`{"acquire":{"path":"` + long + `","handle":"` + strings.Repeat("h", 64) + `"}}`}, 128),
		} {
			body := `{"session":"` + s + `","then":[` + strings.Join(parts, ",") + `]}`
			if len(body) > lockapi.MaxTransactionBytes {
				t.Fatalf("%s: %d bytes", name, len(body))
			}
			var req lockapi.Transaction
			must(t, json.Unmarshal([]byte(body), &req))
			op := &state.Transaction{Session: s, Key: strings.Repeat("k", 128), Digest: make([]byte, 16), If: conditionsOf(req.If), Then: stepsOf(req.Then)}
			c := state.Command{Caller: strings.Repeat("c", 255), Operation: op}
			if size, spare := c.Size(), lockapi.MaxTransactionBytes-len(body); size+spare > membership.MaxCommandBytes {
				t.Errorf("%s: %d bytes and %d to come", name, size, spare)
			}
			if _, err := m.Transact(t.Context(), &Caller{}, &lockapi.Transact{Transaction: req}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		keys := &lockapi.ChangeKeys{}
		for i := range lockapi.MaxKeyOperations {
			value := bytes.Repeat([]byte("x"), lockapi.MaxKeyBytes/lockapi.MaxKeyOperations)
			keys.Operations = append(keys.Operations, lockapi.KeyOperation{Verb: lockapi.KeySet, Path: fmt.Sprintf("%s%03d", long[:1021], i), Content: value})
		}
		if _, err := m.ChangeKeys(t.Context(), &Caller{Principal: strings.Repeat("c", 255)}, keys); err != nil {
			t.Errorf("keys with long paths: %v", err)
		}
		before := n.State().Epoch
		req := lockapi.Transaction{Then: slices.Repeat([]lockapi.Operation{{Put: &lockapi.WriteOperation{Path: "/a", Content: new(strings.Repeat("x", 256<<10))}}}, 3)}
		if _, err := m.Transact(t.Context(), &Caller{}, &lockapi.Transact{Transaction: req}); !errors.Is(err, lockapi.CodeTooLarge) {
			t.Error(err)
		}
		if put(t, m, "/b", "x"); n.State().Epoch != before {
			t.Error("the office has ended")
		}
	})
}

var rewrite = flag.Bool("rewrite", false, "record the golden files anew")

// keyedCalls are the calls that digests are made of: each type of call with no
// field set, and with every field set.
func keyedCalls() []any {
	text := "<é&\u2028>"
	guards := []lockapi.Sequencer{{Mode: lockapi.Exclusive, Token: 1<<53 - 1, Path: "/a"}, {Mode: lockapi.Shared, Token: 1, Path: "/b"}}
	write := &lockapi.WriteOperation{Path: "/a", Content: &text, Ephemeral: new(false)}
	return []any{
		lockapi.SessionRequest{}, lockapi.SessionRequest{TTLMS: 12_000, Name: text, Meta: map[string]string{"b": "2", "a": text}},
		lockapi.WriteFile{}, lockapi.WriteFile{Path: "/é", Content: []byte("content\x00\xff"), Session: "s1", Ephemeral: new(true), IfRevision: new(uint64(57)), IfAbsent: true,
			Sequencers: guards, Key: "k", Sequential: true, Tell: true, Query: map[string]string{"session": "s1", "as": "json"}},
		lockapi.DeleteFiles{}, lockapi.DeleteFiles{Path: "/a", Prefix: "/a/", Session: "s1", IfRevision: new(uint64(0)), Sequencers: guards, Key: "k"},
		lockapi.Transact{}, lockapi.Transact{Key: "k", Transaction: lockapi.Transaction{Session: "s1",
			If: []lockapi.Condition{{File: "/a", Revision: new(uint64(57))}, {File: "/b", Exists: new(false)}, {Sequencer: "exclusive:42:/a"},
				{Session: "s2"}, {Lock: "/x", State: "free"}},
			Then: []lockapi.Operation{{Put: write}, {Create: &lockapi.WriteOperation{Path: "/b", ContentBase64: new([]byte("x\xff"))}},
				{CreateSequential: &lockapi.WriteOperation{Path: "/q/"}}, {Delete: &lockapi.FileOperation{Path: "/c"}}, {Get: &lockapi.FileOperation{Path: "/d"}}},
			Else: []lockapi.Operation{{Acquire: &lockapi.AcquireOperation{Path: "/x", Handle: "h", Mode: lockapi.Shared, Limit: 2, LockDelayMS: 3}},
				{Release: &lockapi.ReleaseOperation{Path: "/y", Handle: "h", Token: 42}}},
		}},
	}
}

// TestGoldenDigests: the same call has the same digest in every release.
// Otherwise a call that is repeated after an upgrade would conflict with
// itself.
func TestGoldenDigests(t *testing.T) {
	var now strings.Builder
	set := map[reflect.Type]map[string]bool{}
	for _, call := range keyedCalls() {
		raw, err := json.Marshal(call)
		must(t, err)
		fmt.Fprintf(&now, "%T %x\n%s\n\n", call, digestOf(call), raw)
		fieldsSet(reflect.ValueOf(call), set)
	}
	for of, fields := range set {
		for name, isSet := range fields {
			if !isSet && name != "Caller" { // another caller may repeat the call
				t.Errorf("no call sets %s of %v: the golden digests must include it", name, of)
			}
		}
	}
	const file = "testdata/digests.txt"
	if *rewrite {
		must(t, os.WriteFile(file, []byte(now.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if now.String() != string(want) {
		t.Errorf("digests have changed; a new field needs omitzero:\n%s\nwere\n%s", &now, want)
	}
}

// fieldsSet notes which fields of the structs within a value are not zero.
func fieldsSet(v reflect.Value, set map[reflect.Type]map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fieldsSet(v.Elem(), set)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fieldsSet(v.Index(i), set)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Caller]() {
			return
		}
		fields := set[v.Type()]
		if fields == nil {
			fields = map[string]bool{}
			set[v.Type()] = fields
		}
		for f, field := range v.Fields() {
			fields[f.Name] = fields[f.Name] || !field.IsZero()
			fieldsSet(field, set)
		}
	}
}
