package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestRunAgain: `devcell run` prints where its cell is and what to try. A
// second program is refused while the first runs. The next run continues on the
// same ports with the same data.
func TestRunAgain(t *testing.T) {
	testrun.E2E(t)
	dir, port := t.TempDir(), freeBase(t)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	var session lockapi.Session

	output, end := startLocal(t, "run", "--data", dir, "--port", fmt.Sprint(port), "--stoutd-arg", "--heartbeat-timeout=2s")
	for _, want := range []string{"curl -s " + url + "/v1/cell\n", "export STOUT_SERVER=" + url + ",", "stout status\n", "Ctrl-C stops the cell."} {
		if !strings.Contains(output, want) {
			t.Errorf("the output lacks %q:\n%s", want, output)
		}
	}
	if err := run(t.Context(), []string{"run", "--data", dir}); err == nil || !strings.Contains(err.Error(), "is already running") {
		t.Errorf("a second program runs the same cell: %v", err)
	}
	var view lockapi.Cell
	if insist(t, http.MethodGet, url, lockapi.RouteCell, nil, &view); view.Lease.TermMS != 2600 {
		t.Errorf("the flag of stoutd has no effect: the lease is for %d ms", view.Lease.TermMS)
	}
	insist(t, http.MethodPost, url, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: 600_000}, &session)
	end()

	output, end = startLocal(t, "run", "--data", dir)
	if !strings.Contains(output, "curl -s "+url+"/v1/cell\n") {
		t.Errorf("it is on other ports than before:\n%s", output)
	}
	insist(t, http.MethodGet, url, lockapi.RouteSessions+"/"+session.ID, nil, nil)
	end()
}

// insist repeats a call while the cell refuses it for now, and requires
// success.
func insist(t *testing.T, method, url, path string, in, out any) {
	t.Helper()
	ctx := cell.Bounded(t)
	_, err := cell.Repeat(ctx, func(int) error {
		_, err := cell.Call(ctx, method, url, path, in, out)
		return err
	})
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// TestRunSecure: the commands that `devcell run --secure` prints work as shown,
// with TLS and access control, also in the next run. Only the owner of the root
// token's file can read it.
func TestRunSecure(t *testing.T) {
	testrun.E2E(t)
	dir, port := t.TempDir(), freeBase(t)
	for range 2 {
		output, end := startLocal(t, "run", "--secure", "--data", dir, "--port", fmt.Sprint(port), "--stoutd-arg=--heartbeat-timeout=2s")
		var script []string
		for line := range strings.Lines(output) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "export ") || strings.HasPrefix(line, "curl ") || strings.HasPrefix(line, "S=") || strings.HasPrefix(line, "tail ") || strings.Contains(line, "stout status") || strings.Contains(line, "stout lock") {
				script = append(script, line)
			}
		}
		sh := exec.CommandContext(cell.Bounded(t), "sh", "-ec", strings.Join(script, "\n"))
		out, err := sh.CombinedOutput()
		for _, want := range []string{`"cell":"local"`, `"token":`, `"state":"held"`, "REPLICA  ROLE", "I hold /db/backup with token ",
			`{"principal":"user:root","how":"token"}`, `"lock":{"allowed":true,"rule":"/app"}`, `"method":"PUT","route":"/v1/access/rules/{path}","path":"/app","status":200`} {
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%v, without %s:\n%s\nsays:\n%s", err, want, strings.Join(script, "\n"), out)
			}
		}
		for _, file := range []string{tokenFile(dir), curlFile(dir), dir + "/r1.audit.log"} {
			if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v, %v", file, info, err)
			}
		}
		url, _, _ := strings.Cut(output[strings.Index(output, "https://"):], " ")
		bare := exec.CommandContext(cell.Bounded(t), "curl", "-s", "--cacert", dir+"/certs/ca.pem", url+"/v1/sessions")
		if out, err := bare.CombinedOutput(); err != nil || !strings.Contains(string(out), `"code":"unauthenticated"`) {
			t.Errorf("without a token: %v, %s", err, out)
		}
		end()
		port = 0
	}
}

// startLocal runs a command until it has printed what to try. end stops it as
// Ctrl-C does.
func startLocal(t *testing.T, args ...string) (output string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write, err := os.Pipe()
	must(t, err)
	screen := os.Stdout
	os.Stdout = write
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, args)
		_ = write.Close()
	}()
	end = func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopped with %v", err)
		}
		os.Stdout = screen
	}
	lines := bufio.NewReader(read)
	for !strings.Contains(output, "Ctrl-C stops the cell.") {
		line, err := lines.ReadString('\n')
		if err != nil {
			cancel()
			os.Stdout = screen
			t.Fatalf("it ended (%v) after printing:\n%s", <-done, output)
		}
		output += line
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	return output, end
}

// freeBase returns the first port of a range that is free for a cell.
func freeBase(t *testing.T) int {
	t.Helper()
	for port := 12001; port < 14500; port += 10 {
		if firstInUse(at(port), inUse) == 0 {
			return port
		}
	}
	t.Fatal("no free ports")
	return 0
}
