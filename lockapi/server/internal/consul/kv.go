package consul

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stoutlock/stout/lockapi"
)

var errNoKey = lockapi.Invalid("key", "Missing key name")

func parseGet(r *Request, q url.Values, c *Call) error {
	key, err := r.argument()
	if err != nil {
		return err
	}
	switch {
	case q.Has("keys"), q.Has("recurse"):
		return c.list(key, q)
	case key == "":
		return errNoKey
	}
	if c.Path, err = pathOf(key); err != nil {
		return err
	}
	if c.Watch != nil {
		c.Watch.Path = c.Path
	}
	raw := q.Has("raw")
	c.Run = func(ctx context.Context, o Office) (*Reply, error) {
		found, index, err := get[[]lockapi.Key](ctx, o, &lockapi.GetKey{Path: c.Path})
		switch {
		case err != nil:
			return nil, err
		case len(found) == 0:
			return &Reply{Status: http.StatusNotFound, Index: index}, nil
		case raw:
			return &Reply{Status: http.StatusOK, Type: "text/plain", Body: found[0].Content, Raw: true, Index: index}, nil
		}
		body := append(appendKey([]byte{'['}, key, &found[0], true), ']')
		return inJSON(body, index), nil
	}
	return nil
}

func (c *Call) list(prefix string, q url.Values) error {
	names := q.Has("keys")
	at, err := pathPrefix(prefix)
	if err != nil {
		return err
	}
	c.Under = at
	if c.Watch != nil {
		c.Watch.Prefix = at
	}
	separator := q.Get("separator")
	if separator == "" {
		separator = q.Get("seperator") // Consul accepts this spelling, too
	}
	c.Run = func(ctx context.Context, o Office) (*Reply, error) {
		found, index, err := get[[]lockapi.Key](ctx, o, &lockapi.ListKeys{Prefix: at, Names: names})
		if err != nil {
			return nil, err
		}
		all := named(found)
		if len(all) == 0 && (prefix != "" || !names) {
			return &Reply{Status: http.StatusNotFound, Index: index}, nil
		}
		if names {
			return reply(rollUp(all, prefix, separator), index)
		}
		b := []byte{'['}
		for i, k := range all {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendKey(b, k.name, k.Key, true)
		}
		return inJSON(append(b, ']'), index), nil
	}
	return nil
}

type keyed struct {
	name string
	*lockapi.Key
}

// named returns the keys with a path that is a Consul key's, in the order of
// their names.
func named(found []lockapi.Key) (all []keyed) {
	for i := range found {
		if name, ok := keyOf(found[i].Path); ok {
			all = append(all, keyed{name, &found[i]})
		}
	}
	order := func(a, b keyed) int { return strings.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(all, order) {
		slices.SortFunc(all, order)
	}
	return all
}

// rollUp returns the names up to the first separator after the prefix.
func rollUp(all []keyed, prefix, separator string) []string {
	names := []string{}
	for _, k := range all {
		name := k.name
		if separator != "" {
			if i := strings.Index(name[len(prefix):], separator); i >= 0 {
				name = name[:len(prefix)+i+len(separator)]
			}
		}
		if n := len(names); n == 0 || names[n-1] != name {
			names = append(names, name)
		}
	}
	return names
}

// appendKey appends a key as Consul writes it. An empty value is null there.
func appendKey(b []byte, name string, k *lockapi.Key, value bool) []byte {
	b = strconv.AppendUint(append(b, `{"LockIndex":`...), k.Locks, 10)
	b = appendText(append(b, `,"Key":`...), name)
	b = strconv.AppendUint(append(b, `,"Flags":`...), k.Flags, 10)
	b = append(b, `,"Value":`...)
	if value && len(k.Content) > 0 {
		b = append(base64.StdEncoding.AppendEncode(append(b, '"'), k.Content), '"')
	} else {
		b = append(b, "null"...)
	}
	if k.Session != "" {
		b = appendText(append(b, `,"Session":`...), k.Session)
	}
	b = strconv.AppendUint(append(b, `,"CreateIndex":`...), k.CreateIndex, 10)
	b = strconv.AppendUint(append(b, `,"ModifyIndex":`...), k.ModifyIndex, 10)
	return append(b, '}')
}

// appendText appends a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendText(b []byte, text string) []byte {
	quoted, err := jsontext.AppendQuote(b, text)
	if err != nil {
		quoted, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(text, "\ufffd"))
	}
	return quoted
}

func parsePut(r *Request, q url.Values, c *Call) error {
	op, err := keyOperation(r, lockapi.KeySet)
	if err != nil {
		return err
	}
	if err := only(q, "cas", "acquire", "release"); err != nil {
		return err
	}
	switch {
	case q.Has("cas"):
		op.Verb = lockapi.KeyCAS
	case q.Has("acquire"):
		op.Verb, op.Session = lockapi.KeyLock, q.Get("acquire")
	case q.Has("release"):
		op.Verb, op.Session = lockapi.KeyUnlock, q.Get("release")
		c.Frees = true
	}
	if op.Index, err = number(q, "cas"); err != nil {
		return err
	}
	if op.Flags, err = number(q, "flags"); err != nil {
		return err
	}
	if n := len(r.Body); n > lockapi.MaxKeyBytes {
		return lockapi.Errorf(lockapi.CodeTooLarge, "Request body(%d bytes) too large, max size: %d bytes.", n, lockapi.MaxKeyBytes)
	}
	op.Content = r.Body
	c.Path, c.Run = op.Path, changeOne(op)
	return nil
}

func parseDelete(r *Request, q url.Values, c *Call) error {
	err := only(q, "recurse", "cas")
	if err != nil {
		return err
	}
	var op lockapi.KeyOperation
	if q.Has("recurse") {
		var prefix string
		if prefix, err = r.argument(); err == nil {
			op.Verb = lockapi.KeyDeleteTree
			op.Path, err = pathPrefix(prefix)
			c.Under = op.Path
		}
	} else if op, err = keyOperation(r, lockapi.KeyDelete); err == nil {
		c.Path = op.Path
		if q.Has("cas") {
			op.Verb = lockapi.KeyDeleteCAS
			op.Index, err = number(q, "cas")
		}
	}
	c.Run = changeOne(op)
	return err
}

func keyOperation(r *Request, verb lockapi.KeyVerb) (op lockapi.KeyOperation, err error) {
	key, err := r.argument()
	if err != nil {
		return op, err
	}
	if key == "" {
		return op, errNoKey
	}
	op.Verb = verb
	op.Path, err = pathOf(key)
	return op, err
}

// only refuses more than one of some parameters.
func only(q url.Values, names ...string) error {
	found := ""
	for _, name := range names {
		if q.Has(name) && found != "" {
			return lockapi.Invalid(name, "Conflicting flags: %s and %s", found, name)
		} else if q.Has(name) {
			found = name
		}
	}
	return nil
}

// number reads a parameter; 0 if it is not given.
func number(q url.Values, name string) (uint64, error) {
	if !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil {
		return 0, lockapi.Invalid(name, "%s is %q; it must be a number", name, lockapi.Clip(q.Get(name)))
	}
	return n, nil
}

// changeOne makes one change. The answer is true, or false if its condition
// does not hold.
func changeOne(op lockapi.KeyOperation) runner {
	return func(ctx context.Context, o Office) (*Reply, error) {
		done, _, err := get[lockapi.KeysChanged](ctx, o, &lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{op}})
		if err != nil {
			return nil, err
		}
		answer := "true"
		if len(done.Failures) > 0 {
			switch why := done.Failures[0].Why; {
			case why == lockapi.KeyNoSession, why == lockapi.KeyTooLarge, why == lockapi.KeyNotHeld && op.Session == "":
				return text(http.StatusInternalServerError, what(&op, &done.Failures[0])), nil
			}
			answer = "false"
		}
		return inJSON([]byte(answer), 0), nil
	}
}

// what returns why an operation failed, in Consul's words.
func what(op *lockapi.KeyOperation, f *lockapi.KeyFailure) string {
	key, _ := keyOf(op.Path)
	switch {
	case op.Session == "" && (op.Verb == lockapi.KeyLock || op.Verb == lockapi.KeyUnlock):
		return "missing session"
	case f.Why == lockapi.KeyNoSession:
		return fmt.Sprintf("invalid session %q", op.Session)
	case f.Why == lockapi.KeyHeld:
		return fmt.Sprintf("failed to lock key %q, lock is already held", key)
	case f.Why == lockapi.KeyDelayed:
		return fmt.Sprintf("failed to lock key %q due to lock delay", key)
	case f.Why == lockapi.KeyNotHeld:
		return fmt.Sprintf("failed to unlock key %q, lock isn't held, or is held by another session", key)
	case f.Why == lockapi.KeyTooLarge:
		return fmt.Sprintf("%s of %q is too large: one request reads at most 1 MiB, and its trees have at most 10000 keys; nothing was changed", op.Verb, strings.TrimPrefix(op.Path, "/"))
	case f.Why == lockapi.KeyMissing && op.Verb == lockapi.KeyGet:
		return fmt.Sprintf("key %q doesn't exist", key)
	case f.Why == lockapi.KeyMissing && op.Verb == lockapi.KeyCheckSession:
		return fmt.Sprintf("failed to check session, key %q doesn't exist", key)
	case f.Why == lockapi.KeyMissing:
		return fmt.Sprintf("failed to check index, key %q doesn't exist", key)
	}
	switch op.Verb {
	case lockapi.KeyDeleteCAS:
		return fmt.Sprintf("failed to delete key %q, index is stale", key)
	case lockapi.KeyCheckIndex:
		return fmt.Sprintf("failed index check for key %q, current modify index %d != %d", key, f.ModifyIndex, op.Index)
	case lockapi.KeyCheckSession:
		return fmt.Sprintf("failed session check for key %q, current session %q != %q", key, f.Session, op.Session)
	case lockapi.KeyCheckNotExists:
		return fmt.Sprintf("key %q exists", key)
	}
	return fmt.Sprintf("failed to set key %q, index is stale", key)
}

// get makes a call and returns its answer as the type that the call has. The
// revision is also that of an error.
func get[A any](ctx context.Context, o Office, c lockapi.Call) (a A, revision uint64, err error) {
	answer, revision, err := o.Do(ctx, c)
	if err != nil {
		return a, max(revision, 1), err
	}
	a, _ = answer.(A)
	return a, max(revision, 1), nil
}

// reply returns an answer in JSON. Its index is 0 for none.
func reply(v any, index uint64) (*Reply, error) {
	body, err := json.Marshal(v)
	return inJSON(body, index), err
}

func inJSON(body []byte, index uint64) *Reply {
	return &Reply{Status: http.StatusOK, Type: "application/json", Body: body, Index: index}
}

func text(status int, body string) *Reply {
	return &Reply{Status: status, Type: "text/plain", Body: []byte(body)}
}
