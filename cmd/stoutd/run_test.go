package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/buildinfo"
)

// invoke is run with a context that ends at once, so that nothing it starts by
// mistake stays.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// replicaFlags are those of a whole cell of one.
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
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown flag", []string{"--lease", "1s"}, exitUsage, "unknown flag: --lease"},
		{"unknown command", []string{"serve"}, exitUsage, `unknown command "serve"`},
		{"unknown output", []string{"config", "-o", "xml"}, exitUsage, `--output "xml": it is one of table, yaml`},
		{"nothing set", nil, exitConfig, "stoutd: 4 settings are wrong:"},
		{"bad value", append(replicaFlags("x"), "--master-lease", "2h"), exitConfig, `master-lease "2h0m0s" (flag --master-lease): at most 1m0s`},
		{"dev of a cell", []string{"--dev", "--cell", "x"}, exitConfig, `cell "x" (flag --cell): contradicts dev`},
		{"taken port", append(replicaFlags("x"), "--api-listen", taken.Addr().String()), exitStart, `(flag --api-listen): the address is in use; is another stoutd running?`},
		{"host that is not ours", append(replicaFlags("x"), "--api-listen", "192.0.2.1:7101"), exitStart, `api-listen "192.0.2.1:7101" (flag --api-listen): listen tcp`},
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
		"cell                  local                                     flag --cell",
		"clock-drift           0.02                                      environment STOUTD_CLOCK_DRIFT",
		"master-lease          750ms                                     default",
		"max-bytes             1GiB                                      default",
	} {
		if !strings.Contains(table, line+"\n") {
			t.Errorf("no line %q in:\n%s", line, table)
		}
	}
}

// TestConfigYAMLIsAFile: what -o yaml writes is accepted by --config, and shows
// the same values.
func TestConfigYAMLIsAFile(t *testing.T) {
	_, first, _ := invoke(t, append([]string{"config", "-o", "yaml"}, replicaFlags("data")...)...)
	file := filepath.Join(t.TempDir(), "r1.yaml")
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	code, second, stderr := invoke(t, "--config", file, "config", "-o", "yaml")
	if code != exitOK || values(second) != values(first) {
		t.Errorf("exit code %d, stderr %q, values:\n%s\nwant:\n%s", code, stderr, values(second), values(first))
	}
}

// values is YAML without its comments, which name the sources.
func values(yaml string) string {
	lines := strings.Split(yaml, "\n")
	for i, line := range lines {
		lines[i], _, _ = strings.Cut(line, " #")
	}
	return strings.Join(lines, "\n")
}

// TestConfigShowsWhatItRefuses: a person who looks for a mistake sees the
// values, their sources and the reasons.
func TestConfigShowsWhatItRefuses(t *testing.T) {
	code, stdout, stderr := invoke(t, append([]string{"config"}, append(replicaFlags("d"), "--log-level", "loud")...)...)
	if code != exitConfig || !strings.Contains(stdout, "loud") || !strings.Contains(stderr, `log-level "loud" (flag --log-level): it is one of`) {
		t.Errorf("exit code %d, stdout:\n%s\nstderr:\n%s", code, stdout, stderr)
	}
}

func TestVersionCommand(t *testing.T) {
	code, stdout, _ := invoke(t, "version")
	if want := "stoutd " + buildinfo.Get().String() + "\n"; code != exitOK || stdout != want {
		t.Errorf("exit code %d, stdout %q, want %q", code, stdout, want)
	}
	var info buildinfo.Info
	code, stdout, _ = invoke(t, "version", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &info); code != exitOK || err != nil || info != buildinfo.Get() {
		t.Errorf("exit code %d, stdout %q, %v", code, stdout, err)
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	code, stdout, _ := invoke(t, "--help")
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"--replica id=host:port,url", "--master-lease duration", "(default 127.0.0.1:7101)", "STOUTD_MASTER_LEASE", "Exit codes"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
}
