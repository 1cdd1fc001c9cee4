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
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```sh\nid=$(curl")
	shown, _, ok := strings.Cut("id=$(curl"+shown, "```")
	if !ok || strings.Count(shown, "\n") != 5 {
		t.Fatalf("the README has no such calls; found %q", shown)
	}
	c := cell.New(t, cell.Options{})
	for i, port := range []string{"localhost:7101", "localhost:7102", "localhost:7103"} {
		if !strings.Contains(shown, port) {
			t.Errorf("the calls do not show that every replica takes every call: none goes to %s", port)
		}
		shown = strings.ReplaceAll(shown, port, strings.TrimPrefix(c.URLs()[i], "http://"))
	}
	sh := exec.CommandContext(cell.Bounded(t), "sh", "-ec", shown)
	var stderr strings.Builder
	sh.Stderr = &stderr
	out, err := sh.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	for _, want := range []string{`"state":"held","session":`, `"holders":[{`, `"held_ms":`, `{"released":true}`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), `"code":`) {
		t.Errorf("a call was refused:\n%s", out)
	}
}
