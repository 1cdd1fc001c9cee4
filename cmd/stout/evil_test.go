//go:build unix

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// nasty is what a terminal would obey: it clears the screen, in seven bits and
// in eight, sets the title, turns text round, and pretends to be another line.
const nasty = "x\x1b[2J\u009b2J\x1b]0;t\a\u202e\u2066\r\nstout: all is well\x7f\xff"

// nastyPath is as nasty as a path may be.
const nastyPath = "/a\u202eb\u2066\u00a0\ufeff/`id`$(id)"

// Names, metadata and paths that others chose, and all else that a cell says,
// are shown, not obeyed.
func TestNothingControlsTheTerminal(t *testing.T) {
	c, stop := serveFakeCell()
	defer stop()
	c.mu.Lock()
	c.fault = evil
	var ids []string
	for range 2 {
		s := c.open(lockapi.SessionRequest{TTLMS: 60_000, Name: nasty, Meta: map[string]string{nasty: nasty}})
		req := lockapi.NewLockRequest(s.ID)
		req.Handle = nasty
		if err := c.request(nastyPath, req); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	c.mu.Unlock()
	for _, line := range []string{
		"status", "status --check", "locks", "locks PATH", "sessions", "session show " + ids[0], "session show " + ids[1],
		"session show nobody", "check exclusive:1:PATH", "transfer", "transfer r9", "lock PATH --try -- true",
		"lock PATH --wait 400ms -- true", "release PATH --token 3", "release PATH", "session kill " + ids[1],
		"lock /free -- true",
	} {
		for _, format := range []string{"table", "json"} {
			args := []string{"-o", format}
			for _, arg := range strings.Fields(line) {
				args = append(args, strings.ReplaceAll(arg, "PATH", nastyPath))
			}
			cmd := exec.Command("stout", args...)
			cmd.Env = append(os.Environ(), "STOUT_SERVER="+c.url)
			out, _ := cmd.CombinedOutput()
			obeyed := func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
			if i := strings.IndexFunc(string(out), obeyed); i >= 0 || !utf8.Valid(out) {
				t.Errorf("%q sends the terminal what it obeys, at byte %d of %q", args, i, out)
			}
			if strings.Contains("\n"+string(out), "\nstout: all is well") {
				t.Errorf("%q lets a name stand as a line of its own:\n%s", args, out)
			}
		}
	}
}
