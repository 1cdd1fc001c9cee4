package master

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

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
