package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/stoutlock/stout/lockapi"
)

type txnOp struct {
	KV *struct {
		Verb      lockapi.KeyVerb
		Key       string
		Value     []byte
		Flags     uint64
		Index     uint64
		Session   string
		Namespace string
		Partition string
	}
	Node, Service, Check, Session any // must be null
}

// The verbs with a prefix, the verbs that change something, and the others.
var (
	treeVerbs  = []lockapi.KeyVerb{lockapi.KeyGetTree, lockapi.KeyDeleteTree}
	writeVerbs = []lockapi.KeyVerb{lockapi.KeySet, lockapi.KeyCAS, lockapi.KeyLock, lockapi.KeyUnlock, lockapi.KeyDelete, lockapi.KeyDeleteCAS, lockapi.KeyDeleteTree}
	readVerbs  = []lockapi.KeyVerb{lockapi.KeyGet, lockapi.KeyGetOrEmpty, lockapi.KeyGetTree, lockapi.KeyCheckIndex, lockapi.KeyCheckSession, lockapi.KeyCheckNotExists}
)

func parseTxn(r *Request, _ url.Values, c *Call) error {
	var ops []txnOp
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&ops); err != nil {
		return lockapi.Invalid("body", "Failed to parse body: %v; a transaction of the door has operations of the kind KV only", err)
	}
	if len(ops) > lockapi.MaxKeyOperations {
		return lockapi.Errorf(lockapi.CodeTooLarge, "Transaction contains too many operations (%d > %d)", len(ops), lockapi.MaxKeyOperations)
	}
	call, size := &lockapi.ChangeKeys{}, 0
	var wrong []txnError
	keys := make([]string, len(ops))
	c.Reads = true
	for i, op := range ops {
		if op.KV == nil || op.Node != nil || op.Service != nil || op.Check != nil || op.Session != nil {
			return lockapi.Invalid("body", "operation %d is not of the kind KV, the only one that the door has", i)
		}
		kv := op.KV
		one := lockapi.KeyOperation{Verb: kv.Verb, Content: kv.Value, Flags: kv.Flags, Index: kv.Index, Session: kv.Session}
		writes := slices.Contains(writeVerbs, kv.Verb)
		var err error
		switch {
		case !writes && !slices.Contains(readVerbs, kv.Verb):
			wrong = append(wrong, txnError{i, fmt.Sprintf("unknown KV verb %q", lockapi.Clip(string(kv.Verb)))})
		case kv.Namespace != "" && kv.Namespace != "default", kv.Partition != "" && kv.Partition != "default":
			return lockapi.Invalid("body", "operation %d has a namespace or a partition; there is only \"default\"", i)
		case slices.Contains(treeVerbs, kv.Verb):
			one.Path, err = pathPrefix(kv.Key)
		case kv.Key == "":
			wrong = append(wrong, txnError{i, "Must provide key"})
		default:
			one.Path, err = pathOf(kv.Key)
		}
		if err != nil {
			return err
		}
		if n := len(kv.Value); n > lockapi.MaxKeyBytes {
			return lockapi.Errorf(lockapi.CodeTooLarge, "Value for key %q is too large (%d > %d bytes)", lockapi.Clip(kv.Key), n, lockapi.MaxKeyBytes)
		}
		if size += len(kv.Value); size > lockapi.MaxKeyBytes {
			return lockapi.Errorf(lockapi.CodeTooLarge, "with operation %d the values of the transaction have %d bytes, max size: %d bytes", i, size, lockapi.MaxKeyBytes)
		}
		if writes {
			c.Reads = false
		}
		keys[i] = kv.Key
		call.Operations = append(call.Operations, one)
	}
	c.Run = func(ctx context.Context, o Office) (*Reply, error) {
		if wrong != nil {
			return failed(wrong)
		}
		return transact(ctx, o, call, keys)
	}
	return nil
}

type txnError struct {
	OpIndex int
	What    string
}

// failed is the answer to a transaction that changed nothing.
func failed(all []txnError) (*Reply, error) {
	r, err := reply(map[string]any{"Results": nil, "Errors": all}, 0)
	r.Status = http.StatusConflict
	return r, err
}

func transact(ctx context.Context, o Office, call *lockapi.ChangeKeys, keys []string) (*Reply, error) {
	if len(call.Operations) == 0 {
		return reply(map[string]any{"Results": []any{}, "Errors": nil}, 0)
	}
	done, _, err := get[lockapi.KeysChanged](ctx, o, call)
	if err != nil {
		return nil, err
	}
	if len(done.Failures) > 0 {
		var all []txnError
		for i := range done.Failures {
			f := &done.Failures[i]
			all = append(all, txnError{f.Operation, what(&call.Operations[f.Operation], f)})
		}
		return failed(all)
	}
	b := []byte(`{"Results":[`)
	add := func(name string, k *lockapi.Key, value bool) {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(appendKey(append(b, `{"KV":`...), name, k, value), '}')
	}
	for i, found := range done.Results {
		op := &call.Operations[i]
		switch {
		case op.Verb == lockapi.KeyGetTree:
			for _, k := range named(found) {
				add(k.name, k.Key, true)
			}
		case len(found) > 0:
			add(keys[i], &found[0], op.Verb == lockapi.KeyGet || op.Verb == lockapi.KeyGetOrEmpty)
		case op.Verb == lockapi.KeyGetOrEmpty:
			add(keys[i], &lockapi.Key{Flags: op.Flags}, false)
		}
	}
	b = append(b, `],"Errors":null}`...)
	return inJSON(b, 0), nil
}
