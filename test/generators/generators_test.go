// Package generators_test makes clients from the openapi.yaml that a cell
// serves, with three generators in pinned versions: with one of them in make e2e. Each client is generated
// without a warning, compiles under strict settings, and uses a lock of a real
// cell.
//
// The programs that use the clients are in testdata: a Go module and an npm
// package of their own. They are copied to bin/generators, where installed
// packages stay for the next run. Without npm the clients in TypeScript are
// skipped.
package generators_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

func TestMain(m *testing.M) { os.Exit(testrun.Main(m.Run)) }

// step is a command and a pattern of its whole output. Other output may be a
// warning, and fails the test.
type step struct {
	command string
	prints  string
	shown   bool // on the page
}

// page shows the commands of the generators.
const page = "../../docs/usage.md"

// languages lists the directories of testdata.
var languages = []struct {
	dir      string
	nightly  bool
	needs    string // a command that a machine may lack
	steps    []step
	programs []string
}{
	{"go", false, "go", []step{
		{command: "go tool oapi-codegen -package stout -generate types,client -o stout/client.gen.go openapi.yaml", shown: true},
		{command: "go vet ./..."},
		{command: "go build -o client ."},
	}, []string{"./client"}},
	{"typescript", true, "npm", []step{
		{"npx openapi-typescript openapi.yaml -o stout/schema.ts",
			`✨ openapi-typescript [\d.]+\n🚀 openapi.yaml → stout/schema.ts \[.*\]\n`, true},
		{"npx openapi-ts -i openapi.yaml -o stout/hey-api",
			`@hey-api/openapi-ts v[\d.]+\n\n\[Job 1\] ⏳ Generating from 1 input:\n\[Job 1\]   \[1\] openapi.yaml\n\[Job 1\] ✅ Done! Your output is in .*/stout/hey-api\n`, true},
		{command: "node_modules/.bin/tsc"},
	}, []string{"node out/openapi-fetch.js", "node out/hey-api.js"}},
}

func TestGeneratedClients(t *testing.T) {
	text, err := os.ReadFile(page)
	must(t, err)
	c := cell.New(t, cell.Options{Args: []string{"--heartbeat-timeout=2s"}})
	master, err := c.WaitReady(cell.Bounded(t))
	must(t, err)
	// A replica that is not the master forwards the calls to it.
	replica := c.Others(master)[0]
	document := served(t, replica)
	for _, in := range languages {
		t.Run(in.dir, func(t *testing.T) {
			if in.nightly {
				testrun.Nightly(t)
			}
			if _, err := exec.LookPath(in.needs); err != nil {
				t.Skipf("%s is not installed", in.needs)
			}
			dir := prepare(t, in.dir, document)
			for _, s := range in.steps {
				if s.shown && !strings.Contains(string(text), "\n"+s.command+"\n") {
					t.Errorf("%s does not show %q", page, s.command)
				}
				if out := run(t, dir, s.command); !regexp.MustCompile("^(?:" + s.prints + ")$").MatchString(out) {
					t.Fatalf("%s printed %q, which does not match %q", s.command, out, s.prints)
				}
			}
			for _, program := range in.programs {
				out := strings.TrimSpace(run(t, dir, program+" "+replica.URL))
				token, err := strconv.ParseUint(out, 10, 64)
				if err != nil {
					t.Fatalf("%s printed %q instead of a token", program, out)
				}
				wasHeld(t, replica, token)
			}
		})
	}
}

// wasHeld checks by the cell's own record that the grant with the token was the
// last of the lock, and that its holder released it.
func wasHeld(t *testing.T, r *cell.Replica, token uint64) {
	t.Helper()
	var past lockapi.History
	_, err := cell.Call(cell.Bounded(t), http.MethodGet, r.URL, lockapi.RouteHistory+"?path=/jobs/nightly", nil, &past)
	must(t, err)
	events := slices.DeleteFunc(past.Events, func(e lockapi.PastEvent) bool { return !strings.HasPrefix(string(e.Type), "lock_") })
	if len(events) < 2 || events[0].Type != lockapi.EventLockReleased || events[0].Reason != "released" || events[0].Token != token ||
		events[1].Type != lockapi.EventLockAcquired || events[1].Token != token {
		t.Errorf("the lock's last events are not the grant of token %d and its release: %+v", token, events)
	}
}

// served returns the document that the replica serves.
func served(t *testing.T, r *cell.Replica) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(cell.Bounded(t), http.MethodGet, r.URL+lockapi.RouteOpenAPI, nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	document, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", lockapi.RouteOpenAPI, resp.Status, err)
	}
	return document
}

// installed names a copy of the lock file with the versions in node_modules.
const installed = "installed.json"

// prepare returns a directory with the programs, the document, and the packages
// that they need.
func prepare(t *testing.T, name string, document []byte) string {
	t.Helper()
	root, err := cell.ModuleRoot()
	must(t, err)
	dir := filepath.Join(root, "bin", "generators", name)
	old, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range old {
		if e.Name() != "node_modules" && e.Name() != installed {
			must(t, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	must(t, os.WriteFile(filepath.Join(dir, "openapi.yaml"), document, 0o600))
	wanted, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return dir // the go command fetches its modules
	}
	must(t, err)
	if have, err := os.ReadFile(filepath.Join(dir, installed)); err != nil || !bytes.Equal(have, wanted) {
		run(t, dir, "npm ci --ignore-scripts --no-audit --no-fund")
		must(t, os.WriteFile(filepath.Join(dir, installed), wanted, 0o600))
	}
	return dir
}

// besides matches what does not belong to a command's own output: colors, and
// the modules that the go command fetches first.
var besides = regexp.MustCompile("\x1b\\[[0-9;]*m|(?m:^go: downloading .*\n)")

// run runs a command, which must succeed, and returns its own output.
func run(t *testing.T, dir, command string) string {
	t.Helper()
	args := strings.Fields(command)
	cmd := exec.CommandContext(cell.Bounded(t), args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s in %s: %v\n%s", command, dir, err, out)
	}
	return besides.ReplaceAllString(string(out), "")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
