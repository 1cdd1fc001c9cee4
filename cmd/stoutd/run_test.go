package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/testrun"
)

// invoke calls run with a canceled context, so that a replica started by mistake
// stops.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// serving runs stoutd until the end of the test. stop ends it earlier, and returns
// its exit code.
func serving(t *testing.T, args ...string) (log *testrun.Log, stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	log = new(testrun.Log)
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, log, log) }()
	stop = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { stop() })
	return log, stop
}

// devFlags returns the flags of a cell to try things out.
func devFlags(api string, more ...string) []string {
	return append([]string{"--dev", "--api-listen", api, "--raft-listen", "127.0.0.1:0"}, more...)
}

// replicaFlags returns the flags of a cell of one replica.
func replicaFlags(dir string) []string {
	return []string{
		"--cell", "local", "--id", "r1", "--data-dir", dir, "--log-level", "warn",
		"--replica", "r1=127.0.0.1:7201,http://127.0.0.1:7101",
	}
}

func TestRefusedStarts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown flag", []string{"--lease", "1s"}, exitUsage, "stoutd: unknown flag: --lease; did you mean --master-lease?\n"},
		{"flag like no other", []string{"--colour"}, exitUsage, "stoutd: unknown flag: --colour\n"},
		{"flag of a command", []string{"config", "--ouput", "yaml"}, exitUsage, "did you mean --output?"},
		{"flag like a setting of a command", []string{"config", "--datadir", "x"}, exitUsage, "did you mean --data-dir?"},
		{"unknown command", []string{"verson"}, exitUsage, `unknown command "verson" for "stoutd"; did you mean version?`},
		{"command that others have", []string{"serve"}, exitUsage, `unknown command "serve" for "stoutd": without a command stoutd serves`},
		{"unknown output", []string{"config", "-o", "xml"}, exitUsage, `--output "xml": it is one of table, yaml`},
		{"nothing set", nil, exitConfig, "stoutd: 4 settings are wrong:\n  cell: it is required: the name of the cell (or --dev, to try things out)"},
		{"taken port", append(replicaFlags("x"), "--api-listen", taken.Addr().String()), exitStart, `(flag --api-listen): the address is in use; is another stoutd running?`},
		{"taken port of raft", append(replicaFlags(t.TempDir()), "--api-listen", "127.0.0.1:"+freePort(t), "--raft-listen", taken.Addr().String()), exitStart, `raft-listen "` + taken.Addr().String() + `" (flag --raft-listen): the address is in use; is another stoutd running?`},
		{"address that is not ours", append(replicaFlags("x"), "--api-listen", "192.0.2.1:7101"), exitStart, `api-listen "192.0.2.1:7101" (flag --api-listen): this machine has no address 192.0.2.1; listen on one of its addresses`},
		{"file for a directory", append(replicaFlags(file), "--api-listen", "127.0.0.1:"+freePort(t)), exitStart, `data-dir "` + file + `" (flag --data-dir): `},
		{"file above the directory", append(replicaFlags(file+"/r1"), "--api-listen", "127.0.0.1:"+freePort(t)), exitStart, `not a directory: it must be a directory, and there is a file`},
		{"place for no directory", append(replicaFlags("/proc/r1"), "--api-listen", "127.0.0.1:"+freePort(t)), exitStart, `data-dir "/proc/r1" (flag --data-dir): `},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, _, stderr := invoke(t, test.args...)
			if code != test.code || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, stderr:\n%s\nwant %d and %q", code, stderr, test.code, test.want)
			}
		})
	}
}

func TestConfigCommand(t *testing.T) {
	t.Setenv("STOUTD_CLOCK_DRIFT", "0.02")
	code, table, stderr := invoke(t, append([]string{"config"}, replicaFlags("data")...)...)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, line := range []string{
		"cell                     local                                     flag --cell",
		"clock-drift              0.02                                      environment STOUTD_CLOCK_DRIFT",
		"master-lease             650ms                                     default",
		"max-bytes                1GiB                                      default",
	} {
		if !strings.Contains(table, line+"\n") {
			t.Errorf("no line %q in:\n%s", line, table)
		}
	}
	code, file, _ := invoke(t, append([]string{"config", "-o", "yaml"}, replicaFlags("data")...)...)
	if code != exitOK || !strings.HasPrefix(file, "cell: local # flag --cell\n") {
		t.Errorf("exit code %d, and as a file:\n%s", code, file)
	}
}

// TestConfigShowsWhatItRefuses: the command shows the values, their sources and the
// reasons, to help find a mistake.
func TestConfigShowsWhatItRefuses(t *testing.T) {
	code, stdout, stderr := invoke(t, append([]string{"config"}, append(replicaFlags("d"), "--log-level", "loud")...)...)
	if code != exitConfig || !strings.Contains(stdout, "loud") || !strings.Contains(stderr, `log-level "loud" (flag --log-level): it is one of`) {
		t.Errorf("exit code %d, stdout:\n%s\nstderr:\n%s", code, stdout, stderr)
	}
}

func TestVersionCommand(t *testing.T) {
	for _, args := range []string{"version", "--version"} {
		code, stdout, _ := invoke(t, args)
		if want := "stoutd " + buildinfo.Get().String() + "\n"; code != exitOK || stdout != want {
			t.Errorf("%s: exit code %d, stdout %q, want %q", args, code, stdout, want)
		}
	}
	var info buildinfo.Info
	code, stdout, _ := invoke(t, "version", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &info); code != exitOK || err != nil || info != buildinfo.Get() {
		t.Errorf("exit code %d, stdout %q, %v", code, stdout, err)
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	code, stdout, _ := invoke(t, "--help")
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if config, cell := strings.Index(stdout, "--config file"), strings.Index(stdout, "--cell name"); config < 0 || cell < config {
		t.Errorf("the flags are not in the order in which a person meets them:\n%s", stdout)
	}
	for _, want := range []string{"--replica id=host:port,url", "--master-lease duration", "(default 127.0.0.1:7101)", "STOUTD_MASTER_LEASE", "Exit codes"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
}

// freePort returns a port that is free at present.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
