package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// TestReadmeIsAsShown: the calls that the README has people try do what it
// says, as they stand there, on a cell of three replicas.
func TestReadmeIsAsShown(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl on this machine")
	}
	c := cell.New(t, cell.Options{})
	for _, part := range []struct {
		name, begin string
		lines       int
		want        []string
	}{
		{"locks", "id=$(curl", 5, []string{`"state":"held","session":`, `"holders":[{`, `"held_ms":`, `{"released":true}`}},
		{"files", "curl -s -X PUT -d '10", 3, []string{`{"path":"/web/primary","revision":`, "10.0.0.7:80", `{"files":[{"path":"/web/primary",`}},
	} {
		t.Run(part.name, func(t *testing.T) {
			out := try(t, c, shown(t, part.begin, part.lines))
			for _, want := range part.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %s in:\n%s", want, out)
				}
			}
			if strings.Contains(out, `"code":`) {
				t.Errorf("a call was refused:\n%s", out)
			}
		})
	}
}

// shown is the block of the README that begins so.
func shown(t *testing.T, begin string, lines int) string {
	t.Helper()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```sh\n"+begin)
	block, _, ok := strings.Cut(begin+block, "```")
	if !ok || strings.Count(block, "\n") != lines {
		t.Fatalf("the README has no such calls; found %q", block)
	}
	return block
}

// try runs what was shown on a cell.
func try(t *testing.T, c *cell.Cell, block string) string {
	t.Helper()
	for i, port := range []string{"localhost:7101", "localhost:7102", "localhost:7103"} {
		if !strings.Contains(block, port) {
			t.Errorf("the calls do not show that every replica takes every call: none goes to %s", port)
		}
		block = strings.ReplaceAll(block, port, strings.TrimPrefix(c.URLs()[i], "http://"))
	}
	sh := exec.CommandContext(cell.Bounded(t), "sh", "-ec", block)
	var stderr strings.Builder
	sh.Stderr = &stderr
	out, err := sh.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	return string(out)
}
