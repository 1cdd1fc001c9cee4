//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// nasty is what a terminal would obey: it clears the screen, in seven bits and
// in eight, sets the title, turns text round, is not to be seen, and pretends to
// be another line.
const nasty = "x\x1b[2J\u009b2J\x1b]0;t\a\u202e\u2066\u200b\ufe0f\u3164\r\nstout: all is well\x7f\xff"

// nastyPath is as nasty as a path may be, and nastyName as a principal's name.
const (
	nastyPath = "/a\u202eb\u2066\u00a0\ufeff\u200b\u2028/`id`$(id)"
	nastyName = "u\u202eb\u2066\ufeff\u200b\u2028\ufe0f"
)

// evilCell returns a cell in which every freely chosen text is nasty, and the
// words for its objects on a command line.
func evilCell(t *testing.T) (*testCell, map[string]string) {
	t.Helper()
	c := startCell(t)
	put := func(path string, in any) {
		t.Helper()
		if err := c.do(http.MethodPut, path, in, nil); err != nil {
			t.Fatal(err)
		}
	}
	holder, waiter := c.seize(t, "holder", nastyPath), c.seize(t, "waiter", nastyPath)
	for _, s := range []lockapi.Session{waiter, holder} { // a circle
		req := lockapi.NewLockRequest(s.ID)
		req.Queue = true
		put(lockapi.RouteLocks+"/b", req)
	}
	put(lockapi.RouteFiles+escaped(nastyPath), []byte(strings.ToValidUTF8(nasty, "")))
	list := []string{"user:" + nastyName, "group:" + nastyName}
	put(lockapi.RouteGroups+escaped("/"+nastyName), lockapi.GroupMembers{Members: list[:1]})
	put(lockapi.RouteRules+escaped(nastyPath), lockapi.AccessLists{Read: list, Lock: list, Write: list, Admin: list})
	put(lockapi.RouteCellAccess, lockapi.CellAccess{Observe: list, Operate: list})
	var token lockapi.Token
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("secret")))
	if err := c.do(http.MethodPost, lockapi.RouteTokens, lockapi.TokenRequest{Principal: "user:" + nastyName, TokenSHA256: sum}, &token); err != nil {
		t.Fatal(err)
	}
	c.fail(evil)
	return c, map[string]string{"PATH": nastyPath, "USER": "user:" + nastyName, "GROUP": nastyName, "TOKEN": token.ID, "HOLDER": holder.ID, "WAITER": waiter.ID}
}

// evilLines calls every command that prints text from the cell, for existing
// and for missing objects. A word in capitals is a placeholder for an object of the cell.
var evilLines = []string{
	"status", "status --check", "top", "locks", "locks PATH", "explain PATH", "deadlocks", "sessions", "session show HOLDER", "session show WAITER",
	"session show nobody", "doctor --for 10ms", "rehearse failover --yes", "check exclusive:1:PATH", "transfer", "transfer r1", "transfer r9", "lock PATH --try -- true",
	"lock PATH --wait 400ms -- true", "release PATH --token 3", "release PATH", "explain PATH", "session kill WAITER", "explain PATH --last 1",
	"lock /free -- true", "elect PATH --try -- true", "elect PATHx --value PATH -- true", "txn --then x", "txn --file PATH",
	"ls", "ls --all", "ls --tree", "ls PATH", "get PATH -o json", "get /none", "put PATH x --if-absent", "put PATH x --if-revision 7",
	"put PATH x", "put /e x --ephemeral -- true", "rm PATH --if-revision 7", "rm /none", "rm --all PATH", "watch --after 0 -n 1", "watch PATH --after 0 -n 1",
	"member list", "member replace r1 --yes", "member replace r9 --yes",
	"member add r9 --directory 5f0a81c2d3e4b697 --raft-addr r9:1 --url http://r9 --yes", "member remove r1 --yes", "member set r1 --suffrage nonvoter --yes",
	"access whoami", "access rules", "access rules list PATH", "access rules show PATH", "access rules show /none", "access rules set PATH --read USER",
	"access check PATH USER", "access check PATH", "access check PATH USER --can admin", "access check PATHx anonymous", "access cell", "access cell show",
	"access cell set --observe USER", "access groups", "access groups list", "access groups show GROUP", "access groups show none",
	"access groups set g USER", "access groups add g USER group:GROUP", "access groups remove g nobody", "access groups remove g user:x", "access groups remove g USER",
	"access quotas set USER sessions=5", "access quotas set group:GROUP files=1", "access quotas", "access quotas list", "access quotas show USER",
	"access quotas show user:none", "access quotas set USERx/ sessions=1 USER=1", "access quotas remove USER",
	"access groups remove GROUP", "access rules remove PATH", "access rules remove PATH",
	"token create USER --note USER", "token create USERx --out no/such/dir/USER", "token list", "token list USER", "token revoke no", "token revoke TOKEN",
	"access enable --yes", "access enable --yes", "access disable --yes",
	"certs new --dir PATH", "certs renew --dir PATH", "version",
	"-s PATH status", "--ca-cert PATH status", "--token-file PATH status", "frob USER", "access rules USER", "status USER", "--USER",
	"consul import --door PATH PATH", "consul import --door PATH",
	"backup save evil.backup", // which no answer of that cell is
}

// unasked lists the commands that only print their subcommands or read a local
// file.
var unasked = []string{"rehearse", "backup", "backup show", "backup verify", "help", "completion", "completion bash", "completion zsh", "completion fish", "completion powershell", "member", "session", "token", "access", "certs", "consul"}

// Names, metadata, notes, paths and all other text from a cell never control
// the terminal.
func TestNothingControlsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"table", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			c, words := evilCell(t)
			var pairs []string
			for word, thing := range words {
				pairs = append(pairs, word, thing)
			}
			things := strings.NewReplacer(pairs...)
			for _, line := range testrun.Rows(t, 10, evilLines) {
				args := []string{"-o", format, "--timeout", "2s"}
				for _, arg := range strings.Fields(line) {
					args = append(args, things.Replace(arg))
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				cmd := exec.CommandContext(ctx, "stout", args...)
				cmd.Dir = t.TempDir()
				cmd.Env = append(os.Environ(), "STOUT_SERVER="+c.urlOf("r1"))
				out, _ := cmd.CombinedOutput()
				if ctx.Err() != nil {
					t.Errorf("%q has not ended", args)
				}
				cancel()
				obeyed := func(r rune) bool { return r != '\n' && safetext.Hidden(r) }
				if i := strings.IndexFunc(string(out), obeyed); i >= 0 || !utf8.Valid(out) {
					t.Errorf("%q sends the terminal what it obeys, at byte %d of %q", args, i, out)
				}
				if strings.Contains("\n"+string(out), "\nstout: all is well") {
					t.Errorf("%q lets a name stand as a line of its own:\n%s", args, out)
				}
				if strings.Contains(string(out), "panic:") {
					t.Errorf("%q:\n%s", args, out)
				}
			}
		})
	}
}

// No command is forgotten in evilLines.
func TestEvilLinesHaveAllCommands(t *testing.T) {
	testrun.Sequential(t)
	t.Parallel()
	var walk func(path []string)
	walk = func(path []string) {
		out, err := exec.Command("stout", append(slices.Clone(path), "--help")...).Output()
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		_, list, parts := strings.Cut(string(out), "\nAvailable Commands:\n")
		name := strings.Join(path, " ")
		called := slices.Contains(unasked, name) || slices.ContainsFunc(evilLines, func(line string) bool { return line == name || strings.HasPrefix(line, name+" ") })
		if len(path) > 0 && !called {
			t.Errorf("stout %s is not among what is called with nasty answers", name)
		}
		if !parts || name == "completion" {
			return
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			walk(append(slices.Clone(path), strings.Fields(line)[0]))
		}
	}
	walk(nil)
}
