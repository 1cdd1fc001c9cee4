//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// TestMain makes the commands of the scripts: stout itself, and exits, which
// runs a command and succeeds if its exit code is the one expected, where that is
// to be done in the background or by a shell.
func TestMain(m *testing.M) {
	commands := map[string]func(){"stout": main, "exits": exits}
	if commands[filepath.Base(os.Args[0])] == nil {
		testrun.Wait(8) // scripts wait for leases
	}
	testscript.Main(m, commands)
}

// TestScript runs testdata/script, each on a cell in memory of its own, or on the
// replicas that STOUT_TEST_SERVER names.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(t, "testdata/script", os.Getenv("STOUT_TEST_SERVER")))
}

// TestFault runs testdata/fault: scripts with a failing cell in memory, and
// scripts without a cell.
func TestFault(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(t, "testdata/fault", ""))
}

type cellKey struct{}

func params(t *testing.T, dir, server string) testscript.Params {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%s has %d scripts: %v", dir, len(scripts), err)
	}
	return testscript.Params{
		Files: testrun.Rows(t, 7, scripts),
		// Real runs of the same scripts are never in each other's way: paths
		// begin with $P, which is different in every run of every script.
		Setup: func(env *testscript.Env) error {
			env.Setenv("P", fmt.Sprintf("/test-%d", time.Now().UnixNano()))
			env.Setenv("STOUT_SERVER", server)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			if server == "" {
				c, stop := newCell()
				env.Values[cellKey{}] = c
				env.Setenv("STOUT_SERVER", c.url)
				env.Setenv("ADDRESS", strings.TrimPrefix(c.url, "http://"))
				env.Defer(stop)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fault": cmdFault, "take": cmdTake, "until": cmdUntil, "signal": cmdSignal, "outlasted": cmdOutlasted,
			"hung": cmdHung, "outsider": cmdOutsider, "secure": cmdSecure, "exits": cmdExits, "screen": cmdScreen,
		},
	}
}

// exits CODE COMMAND...
func exits() {
	want, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig)
		}
	}()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != want {
		fmt.Fprintf(os.Stderr, "exits: got exit code %d, expected %d\n", got, want)
		os.Exit(1)
	}
}

// exits CODE COMMAND... runs a command and checks its exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		code = exited.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("got exit code %d, expected %d", code, want)
	}
}

// fault KIND has the cell fail from now on; fault none ends that.
func cmdFault(ts *testscript.TestScript, neg bool, args []string) {
	ts.Value(cellKey{}).(*testCell).fail(fault(args[0]))
}

// screen STREAM FILE compares line by line. In FILE a # matches any figure
// or instant and blanks for one or more blanks; variables are expanded.
func cmdScreen(ts *testscript.TestScript, neg bool, args []string) {
	got, want := ts.ReadFile(args[0]), os.Expand(ts.ReadFile(args[1]), ts.Getenv)
	pattern := regexp.MustCompile(` +`).ReplaceAllString(regexp.QuoteMeta(want), " +")
	pattern = strings.ReplaceAll(pattern, "#", "[-.:0-9a-zTZµ]+")
	if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
		ts.Fatalf("%s is\n%s\nand not\n%s", args[0], got, want)
	}
}

// hung NAME sets a variable to the URL of a server that takes calls and answers
// none.
func cmdHung(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], "http://"+l.Addr().String())
}

// secure DIR has the cell speak https from now on, with the certificate of r1 in
// DIR, to clients that show one. It sets SECURE to its address, and PLAIN to the
// one without TLS.
func cmdSecure(ts *testscript.TestScript, neg bool, args []string) {
	at := func(name string) string { return filepath.Join(ts.MkAbs(args[0]), name) }
	source, err := certs.Open(certs.Files{Cert: at("r1.pem"), Key: at("r1-key.pem"), CA: at("ca.pem")}, nil)
	ts.Check(err)
	c := ts.Value(cellKey{}).(*testCell)
	s := httptest.NewUnstartedServer(c)
	s.Config.ErrorLog = c.port.Config.ErrorLog
	s.TLS = source.Server(tls.RequireAndVerifyClientCert)
	s.StartTLS()
	ts.Defer(func() { s.CloseClientConnections(); s.Close() })
	ts.Setenv("PLAIN", c.target().Host)
	c.mu.Lock()
	c.url = "https://" + s.Listener.Addr().String()
	c.mu.Unlock()
	ts.Setenv("SECURE", c.target().Host)
}

// outlasted PATH FILE checks that the last expired holder of PATH made its last
// change to FILE before the cell ended its hold.
func cmdOutlasted(ts *testscript.TestScript, neg bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	var past lockapi.History
	ts.Check(api(ts, http.MethodGet, lockapi.RouteHistory+"?path="+url.QueryEscape(args[0]), nil, &past))
	i := slices.IndexFunc(past.Events, func(e lockapi.PastEvent) bool { return e.Reason == lockapi.ReasonSessionExpired })
	if i < 0 || !info.ModTime().Before(past.Events[i].At) {
		ts.Fatalf("the hold of %s ended at %+v, %s was changed at %v", args[0], past.Events, args[1], info.ModTime())
	}
	ts.Logf("%s before the end of the hold", past.Events[i].At.Sub(info.ModTime()))
}

// take NAME PATH [JSON] opens a session called NAME and asks for a lock with
// it, with the further fields of JSON. It sets NAME to the session's id and
// NAME_TOKEN to the token.
func cmdTake(ts *testscript.TestScript, neg bool, args []string) {
	var session lockapi.Session
	ts.Check(api(ts, http.MethodPost, lockapi.RouteSessions,
		lockapi.SessionRequest{TTLMS: 60_000, Name: args[0], Meta: map[string]string{"pid": "811"}}, &session))
	req := lockapi.NewLockRequest(session.ID)
	if len(args) > 2 {
		ts.Check(json.Unmarshal([]byte(args[2]), &req))
	}
	var grant lockapi.Grant
	ts.Check(api(ts, http.MethodPut, lockapi.RouteLocks+args[1], req, &grant))
	ts.Setenv(args[0], session.ID)
	ts.Setenv(args[0]+"_TOKEN", strconv.FormatUint(grant.Token, 10))
}

// api makes one call to the cell of the script.
func api(ts *testscript.TestScript, method, path string, in, out any) error {
	server, _, _ := strings.Cut(ts.Getenv("STOUT_SERVER"), ",")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return call(ctx, http.DefaultTransport, method, server+path, in, out)
}

// call makes one call. A body of bytes goes as it is, any other as JSON.
func call(ctx context.Context, via http.RoundTripper, method, url string, in, out any) error {
	var body bytes.Buffer
	if raw, ok := in.([]byte); ok {
		body.Write(raw)
	} else if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, &body)
	if err != nil {
		return err
	}
	resp, err := via.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// patience bounds every wait for a condition.
const patience = time.Minute

// until file NAME waits for a file, until output NAME for one that is not
// empty, until status PATTERN for a line of stout status, until shown PATTERN COMMAND...
// for the output of another command, until PATH STATE [WAITERS] for a lock.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	met := func() bool {
		info, err := os.Stat(ts.MkAbs(args[1]))
		return err == nil && (args[0] == "file" || info.Size() > 0)
	}
	switch args[0] {
	case "file", "output":
	case "status", "shown":
		line, command := regexp.MustCompile("(?m)"+args[1]), args[2:]
		if args[0] == "status" {
			command = args[:1]
		}
		met = func() bool {
			ts.Check(ts.Exec("stout", command...))
			return line.MatchString(ts.ReadFile("stdout"))
		}
	default:
		met = func() bool {
			var l lockapi.Lock
			ts.Check(api(ts, http.MethodGet, lockapi.RouteLocks+args[0], nil, &l))
			return l.State == args[1] && (len(args) == 2 || strconv.Itoa(l.Waiters) == args[2])
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !met() {
		select {
		case <-tick.C:
		case <-end:
			ts.Fatalf("until %s: it did not happen within %v", strings.Join(args, " "), patience)
		}
	}
}

// signal SIGNAL PIDFILE sends a signal to the process with the id in the file.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, signals[args[0]]))
}
