package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHabits: each habit is found in a sentence that has it, but not in the plain
// sentence with the same meaning.
func TestHabits(t *testing.T) {
	found := map[string]bool{}
	for _, tt := range []struct{ habit, plain string }{
		{"Who asks again for what is claimed already is told of the same grant or place.", "Repeating a request returns the same grant or queue position."},
		{"A session that can't be is none: who names one is told so.", "A malformed session id counts as unknown: the result is NoSession."},
		{"told notes that a caller is told of a grant: from now on it is not taken back.", "markDelivered records that a caller has the grant; it is not revoked after that."},
		{"Of a transaction that may write in either branch the larger one counts.", "If both branches write, the larger one is reserved."},
		{"Whoever changes files by a Session has each change made exactly once", "Each file change made through a Session happens exactly once."},
		{"That events are no longer kept is told, and then the files are read again.", "If old events are gone, the watcher gets `compacted` and reads the files again."},
		{"What fails the check is refused.", "The master refuses a write that fails the check."},
		{"The call comes to nothing.", "The call has no effect."},
		{"It stands as it was, and goes on.", "It stays the same and continues."},
		{"those that are of no cell", "replicas without a cell"},
		{"Nothing is known of it, and none asks.", "Its state is unknown."},
		{"he has to start it again", "the operator has to restart it"},
	} {
		for _, f := range check(tt.habit) {
			found[f.habit.name] = true
		}
		if len(check(tt.habit)) == 0 {
			t.Errorf("no habit is found in %q", tt.habit)
		}
		if f := check(tt.plain); len(f) > 0 {
			t.Errorf("%q has %s", tt.plain, f[0].habit.name)
		}
	}
	for _, h := range habits {
		if !found[h.name] {
			t.Errorf("no sentence of this test has: %s", h.name)
		}
	}
	if f := check("Run `who asks`, or whoami."); len(f) > 0 {
		t.Errorf("quoted code counts as prose: %s", f[0].habit.name)
	}
}

// TestBlocks: comments and strings of Go, paragraphs, items and rows of pages,
// descriptions of openapi.yaml and texts of scripts are read; code is not.
func TestBlocks(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"a.go":         {"// Package a has\n// two lines.\npackage a\n\nvar x = \"a string of five words\"\nvar y = \"short\"\n", []string{"Package a has\ntwo lines.\n", "a string of five words"}},
		"a_test.go":    {"// Package a.\npackage a\n\nvar x = \"a string of five words\"\n", []string{"Package a.\n"}},
		"a.md":         {"# Title\n\nOne\nparagraph.\n- item\n  of two\n- other\n\n```\ncode\n```\n| a | b |\n| --- | --- |\n| c | d |\n", []string{"Title", "One paragraph.", "item of two", "other", "a | b |", "c | d |"}},
		"openapi.yaml": {"info:\n  summary: short one\n  description: |\n    of two\n    lines\n  version: 1\n", []string{"short one", "of two lines"}},
		"a.js":         {"// a comment\nsay(\"a text of five words\");\nx = 1;\n", []string{"a comment", "a text of five words"}},
		"a.txt":        {"Whoever\n", nil},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := blocks(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range all {
			got = append(got, b.text)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: blocks %q, want %q", name, got, tt.want)
		}
	}
}

// TestBound: a package passes with few habits, and fails with many or with one
// sentence that begins with `Who`.
func TestBound(t *testing.T) {
	for _, tt := range []struct {
		text string
		fail bool
	}{
		{strings.Repeat("// A comment.\n\n", 10), false},
		{strings.Repeat("// A comment.\n\n", 10) + "// It says so.\n\n", false},
		{strings.Repeat("// A comment.\n\n", 10) + "// It says so.\n\n// It says so.\n\n", true},
		{strings.Repeat("// A comment.\n\n", 100) + "// It says so.\n\n// It says so.\n\n", false},
		{strings.Repeat("// A comment.\n\n", 100) + "// Who asks?\n\n", true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(tt.text+"package a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := run([]string{dir}, &out); (err != nil) != tt.fail {
			t.Errorf("%d bytes: %v\n%s", len(tt.text), err, out.String())
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, s := range []string{
		"master: report outcome_unknown for a half-made replacement",
		"master, lockapi/server: keep the caller of a call in one place",
		"embed: embed a replica", "Merge branch x", "all: leave claim, tell, take and judge one meaning each",
	} {
		if why := checkSubject(s); why != "" {
			t.Errorf("%q is refused: %s", s, why)
		}
	}
	for _, s := range []string{
		"wip", "Fix the bug", "master: a replacement that was made in part is no refusal", "master: fixes a bug",
		"master: fixed a bug", "master: fix a bug.", "master: fix a bug; add a test", "master: Fix a bug",
	} {
		if checkSubject(s) == "" {
			t.Errorf("%q is accepted", s)
		}
	}
}
