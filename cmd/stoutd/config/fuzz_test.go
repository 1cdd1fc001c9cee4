package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzLoad: Load accepts or refuses any file without a panic. An accepted
// configuration, written and read again, is the same. A refusal has reasons.
func FuzzLoad(f *testing.F) {
	examples, err := filepath.Glob("../../../configs/*.yaml")
	if err != nil || len(examples) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, name := range examples {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, "")
	}
	for _, content := range []string{
		"dev: true\n", "dev: true\nmax-bytes: 1GiB\nclock-drift: 1e-2\n", "# nothing\n", "cell: [\n", "- cell\n", "a: 1\n---\nb: 2\n",
		"cell: &a x\nid: *a\n", "cell: !!str 007\n", "cell: |\n  x\n", "? cell\n: x\n", "<<: {cell: x}\n", "replicas:\n  - {id: r1, raft: h:1}\n", "cell: \"\\u0000\"\n",
	} {
		f.Add([]byte(content), "r1=127.0.0.1:7201,http://127.0.0.1:7101")
		f.Add([]byte(content), "r1=127.0.\xff0.1:7201,http://127.0.0.1:7101")
	}
	file := filepath.Join(f.TempDir(), "r.yaml")
	load := func(t *testing.T, content []byte, environ []string) (*Config, error) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(t.Context(), nil, append(environ, "STOUTD_CONFIG="+file))
	}
	f.Fuzz(func(t *testing.T, content []byte, replicas string) {
		// Report an endless Load with its input: go test would only end it.
		defer time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("%q takes more than 10 s", content)) }).Stop()
		var environ []string
		if replicas != "" {
			environ = []string{"STOUTD_REPLICA=" + replicas}
		}
		c, err := load(t, content, environ)
		if err != nil {
			checkProblems(t, c, err)
			return
		}
		written := asYAML(t, c)
		again, err := load(t, []byte(written), nil)
		if err != nil {
			t.Fatalf("what was accepted is written as\n%s\nand refused: %v", written, err)
		}
		c.sources, again.sources = nil, nil
		if !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v is written as\n%s\nand read as %+v", c, written, again)
		}
	})
}

func asYAML(t *testing.T, c *Config) string {
	t.Helper()
	var out strings.Builder
	if err := c.WriteYAML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// checkProblems checks that each reason can be shown, as can what was read.
func checkProblems(t *testing.T, c *Config, err error) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 || c == nil {
		t.Fatalf("refused with %v, and a config %v", err, c)
	}
	for _, p := range problems {
		if p.Field == "" && p.Source == "" || p.Reason == "" || !utf8.ValidString(p.String()) {
			t.Fatalf("%+v does not say what is wrong", p)
		}
	}
	if err := c.WriteTable(&strings.Builder{}); err != nil {
		t.Fatal(err)
	}
}
