package state_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/stoutlock/stout/replica/state"
)

// item is a record of a snapshot, by field number.
type item map[int]any

// parts has the records that make up a snapshot.
type parts struct {
	header                        item
	sessions, locks, holds, waits []item
	cell                          item
	rules, groups, tokens         []item
}

func (p parts) bytes(t *testing.T) []byte {
	header := item{1: 9, 2: 1, 3: 1, 4: item{1: true, 2: 1, 3: "r1", 4: 2000}, 6: 10, 7: 10, 8: 0, 10: 1, 11: 0}
	for k, v := range p.header {
		header[k] = v
	}
	out := bytes.NewBufferString("stout-state\x03")
	enc := cbor.NewEncoder(out)
	put := func(v any) {
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	put(item{1: header, 2: len(p.sessions), 3: len(p.locks), 4: len(p.holds), 5: len(p.waits), 7: p.cell, 8: len(p.rules), 9: len(p.groups), 10: len(p.tokens)})
	for _, list := range [][]item{p.sessions, p.locks, p.holds, p.waits, p.rules, p.groups, p.tokens} {
		for _, v := range list {
			put(v)
		}
	}
	return out.Bytes()
}

// with returns a copy of an item with some fields replaced.
func (i item) with(fields item) item {
	out := item{}
	for k, v := range i {
		out[k] = v
	}
	for k, v := range fields {
		out[k] = v
	}
	return out
}

// TestRestoreRefusesContradictions has one snapshot for each way in which the
// records can disagree, all of them well-formed.
func TestRestoreRefusesContradictions(t *testing.T) {
	var (
		s1   = item{1: "s1", 3: 1000, 4: 0}
		s2   = item{1: "s2", 3: 1000, 4: 0}
		lock = item{1: "/a"}
		hold = item{1: "/a", 2: "s1", 4: 1, 6: 1, 7: 0}
		wait = item{1: "/a", 2: 1, 3: "s2", 5: 1, 9: 0}
		both = []item{s1, s2}

		later = item{10: 2}
		rule  = item{1: "/a", 2: map[int][]string{1: {"*"}}}
		group = item{1: "g", 2: []string{"group:h"}}
		token = item{1: "t1", 2: sumOf("x"), 3: "user:a"}
	)
	tests := []struct {
		name  string
		parts parts
		want  string // "" = valid
	}{
		{"fine", parts{sessions: both, locks: []item{lock}, holds: []item{hold}, waits: []item{wait}}, ""},
		{"hold of a dead session", parts{sessions: []item{s2}, locks: []item{lock}, holds: []item{hold}}, "does not exist"},
		{"wait of a dead session", parts{sessions: []item{s1}, locks: []item{lock}, holds: []item{hold}, waits: []item{wait}}, "does not exist"},
		{"two exclusive holders", parts{sessions: both, locks: []item{lock}, holds: []item{hold, hold.with(item{2: "s2", 6: 2})}}, "exclusive"},
		{"mixed modes", parts{sessions: both, locks: []item{lock}, holds: []item{hold, hold.with(item{2: "s2", 4: 2, 6: 2})}}, "held"},
		{"unknown mode of a hold", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{4: 7})}}, "mode"},
		{"no mode of a hold", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{4: 0})}}, "mode"},
		{"unknown mode of a wait", parts{sessions: both, locks: []item{lock}, holds: []item{hold}, waits: []item{wait.with(item{5: 7})}}, "mode"},
		{"set", parts{sessions: both, locks: []item{lock, {1: "/b"}}, holds: []item{hold}, waits: []item{wait.with(item{11: []string{"/a", "/b"}}), wait.with(item{1: "/b", 11: []string{"/a"}})}}, ""},
		{"set without a part", parts{sessions: both, locks: []item{lock, {1: "/b"}}, holds: []item{hold}, waits: []item{wait.with(item{11: []string{"/a", "/b"}})}}, "missing or differs"},
		{"part without a set", parts{sessions: both, locks: []item{lock, {1: "/b"}}, holds: []item{hold}, waits: []item{wait.with(item{1: "/b", 11: []string{"/a"}})}}, "missing or differs"},
		{"set of one", parts{sessions: both, locks: []item{lock}, holds: []item{hold}, waits: []item{wait.with(item{11: []string{"/a"}})}}, "set of 1 paths"},
		{"set at another path", parts{sessions: both, locks: []item{lock, {1: "/b"}}, holds: []item{hold}, waits: []item{wait.with(item{11: []string{"/b", "/c"}}), wait.with(item{1: "/b", 11: []string{"/b", "/c"}})}}, "missing or differs"},
		{"over the limit", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{4: 2, 5: 1}), hold.with(item{2: "s2", 4: 2, 5: 1, 6: 2})}}, "limit"},
		{"limits differ", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{4: 2, 5: 3}), hold.with(item{2: "s2", 4: 2, 5: 4, 6: 2})}}, "limit"},
		{"limit below zero", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{4: 2, 5: -1})}}, "limit"},
		{"exclusive with a limit", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{5: 1})}}, "limit"},
		{"waits although there is room", parts{sessions: both, locks: []item{lock}, waits: []item{wait}}, "still waits"},
		{"both holds and waits", parts{sessions: both, locks: []item{lock}, holds: []item{hold}, waits: []item{wait.with(item{3: "s1"})}}, "another hold or wait"},
		{"no token", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{6: 0})}}, "token"},
		{"token beyond the counter", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{6: 11})}}, "counter"},
		{"token twice on a path", parts{sessions: both, locks: []item{lock}, holds: []item{hold.with(item{4: 2}), hold.with(item{2: "s2", 4: 2})}}, "out of order"},
		{"token twice in the cell", parts{sessions: both, locks: []item{lock, {1: "/b"}}, holds: []item{hold, hold.with(item{1: "/b"})}}, "token"},
		{"number beyond the sequence", parts{sessions: both, locks: []item{lock}, holds: []item{hold}, waits: []item{wait.with(item{2: 11})}}, "sequence"},
		{"taken after the cell's time", parts{sessions: both, locks: []item{lock}, holds: []item{hold}, waits: []item{wait.with(item{9: 1})}}, "time"},
		{"no number", parts{sessions: both, locks: []item{lock}, holds: []item{hold}, waits: []item{wait.with(item{2: 0})}}, "sequence"},
		{"free lock left behind", parts{locks: []item{lock}}, "is free"},
		{"delay without a length", parts{locks: []item{{1: "/a", 2: 3}}}, "lock-delay"},
		{"delay of a length below zero", parts{locks: []item{{1: "/a", 2: 3, 3: -5}}}, "lock-delay"},
		{"delay beyond the sequence", parts{locks: []item{{1: "/a", 2: 11, 3: 5}}}, "sequence"},
		{"NUL in a path", parts{sessions: both, locks: []item{{1: "/a\x00"}}, holds: []item{hold.with(item{1: "/a\x00"})}}, "NUL"},
		{"NUL in a session's id", parts{sessions: []item{s1.with(item{1: "s\x00"})}}, "NUL"},
		{"no session id", parts{sessions: []item{s1.with(item{1: ""})}}, "out of order"},
		{"one session twice", parts{sessions: []item{s1, s1}}, "out of order"},
		{"one lock twice", parts{sessions: both, locks: []item{lock, lock}, holds: []item{hold}}, "out of order"},
		{"sessions out of order", parts{sessions: []item{s2, s1}}, "out of order"},
		{"hold without its lock", parts{sessions: both, holds: []item{hold}}, "nodes"},
		{"one key for two sessions", parts{sessions: []item{s1.with(item{6: "k"}), s2.with(item{6: "k"})}}, "key"},
		{"lease out of bounds", parts{header: item{4: item{1: true, 4: 60_001}}}, "lease"},
		{"level of a later release", parts{header: item{10: state.Level + 1}}, "level"},
		{"no level", parts{header: item{10: 0}}, "level"},
		{"revision out of bounds", parts{header: item{11: uint64(1) << 53}}, "beyond 53 bits"},
		{"counter out of bounds", parts{header: item{6: uint64(1) << 53}}, "counter"},
		{"fine, with access", parts{header: item{10: 2, 12: true}, cell: item{1: []string{"*"}}, rules: []item{rule}, groups: []item{group}, tokens: []item{token}}, ""},
		{"access before its level", parts{rules: []item{rule}}, "level 1"},
		{"access on before its level", parts{header: item{12: true}}, "level 1"},
		{"rule that can't be", parts{header: later, rules: []item{rule.with(item{1: "a"})}}, "malformed"},
		{"rule by nobody that can be", parts{header: later, rules: []item{rule.with(item{3: "anonymous"})}}, "malformed"},
		{"rule of an unknown permission", parts{header: later, rules: []item{rule.with(item{2: map[int][]string{5: {}}})}}, "malformed"},
		{"rule with no list", parts{header: later, rules: []item{rule.with(item{2: map[int][]string{1: nil}})}}, "malformed"},
		{"rule twice", parts{header: later, rules: []item{rule, rule}}, "out of order"},
		{"groups in a circle", parts{header: later, groups: []item{group, {1: "h", 2: []string{"group:g"}}}}, "member of itself"},
		{"group of everybody", parts{header: later, groups: []item{group.with(item{2: []string{"*"}})}}, "malformed"},
		{"cell of nobody", parts{header: later, cell: item{2: []string{"nobody"}}}, "malformed"},
		{"one secret for two tokens", parts{header: later, tokens: []item{token, token.with(item{1: "t2"})}}, "secret"},
		{"token of nobody", parts{header: later, tokens: []item{token.with(item{3: "anonymous"})}}, "malformed"},
		{"token without a sum", parts{header: later, tokens: []item{token.with(item{2: []byte("x")})}}, "malformed"},
		{"token of after the cell's time", parts{header: later, tokens: []item{token.with(item{5: 1})}}, "time"},
		{"unknown field", parts{sessions: []item{s1.with(item{99: 1})}}, "unknown field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := state.Restore(bytes.NewReader(tt.parts.bytes(t)))
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want != "" && err == nil:
				t.Fatalf("it was accepted:\n%s", dumpText(s))
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("error %q, want one with %q", err, tt.want)
			}
		})
	}
}

// TestRestoreBelievesNoCounts: a claimed count of very many records costs no memory.
func TestRestoreBelievesNoCounts(t *testing.T) {
	for field := 2; field <= 10; field++ {
		if field == 7 { // the lists of the cell
			continue
		}
		for _, n := range []int{-1, 1 << 62} {
			var out bytes.Buffer
			out.WriteString("stout-state\x03")
			preamble := item{1: item{1: 1, 2: 1, 3: 1, 4: item{}, 6: 0, 7: 0, 8: 0, 10: 1, 11: 0}, 2: 0, 3: 0, 4: 0, 5: 0}.with(item{field: n})
			if err := cbor.NewEncoder(&out).Encode(preamble); err != nil {
				t.Fatal(err)
			}
			if _, err := state.Restore(&out); err == nil {
				t.Errorf("a snapshot with a count of %d in field %d and without the records was accepted", n, field)
			}
		}
	}
}
