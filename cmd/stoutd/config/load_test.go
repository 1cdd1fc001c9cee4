package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// threeReplicas are the required flags of a replica in a cell of three.
var threeReplicas = []string{
	"--cell", "local", "--id", "r2", "--data-dir", "data",
	"--replica", "r1=127.0.0.1:7201,http://127.0.0.1:7101",
	"--replica", "r2=127.0.0.1:7202,http://127.0.0.1:7102",
	"--replica", "r3=127.0.0.1:7203,http://127.0.0.1:7103",
}

// input has the arguments, environment and file of one start of stoutd.
type input struct {
	args []string
	env  []string
	file string // content; if not empty, appended to the arguments as --config
}

// cell returns an input of threeReplicas and further arguments.
func cell(args ...string) input {
	return input{args: append(append([]string{}, threeReplicas...), args...)}
}

func load(t *testing.T, in input) (*Config, error) {
	t.Helper()
	args := in.args
	if in.file != "" {
		name := filepath.Join(t.TempDir(), "r.yaml")
		if err := os.WriteFile(name, []byte(in.file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(append([]string{}, args...), "--config", name)
	}
	set := pflag.NewFlagSet("stoutd", pflag.ContinueOnError)
	flags := AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(t.Context(), flags, in.env)
}

func mustLoad(t *testing.T, in input) *Config {
	t.Helper()
	c, err := load(t, in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFlagsAlone(t *testing.T) {
	c := mustLoad(t, cell("--master-lease", "2s", "--clock-drift=0.02"))
	want := Default()
	want.Cell, want.ID, want.DataDir = "local", "r2", "data"
	want.MasterLease, want.ClockDrift = 2*time.Second, 0.02
	want.Replicas = []Replica{
		{ID: "r1", RaftAddr: "127.0.0.1:7201", APIURL: "http://127.0.0.1:7101"},
		{ID: "r2", RaftAddr: "127.0.0.1:7202", APIURL: "http://127.0.0.1:7102"},
		{ID: "r3", RaftAddr: "127.0.0.1:7203", APIURL: "http://127.0.0.1:7103"},
	}
	want.sources, c.sources = nil, nil
	if !reflect.DeepEqual(c, want) {
		t.Errorf("Load = %+v\nwant   %+v", c, want)
	}
	if c.Self() != want.Replicas[1] {
		t.Errorf("Self() = %v, want r2", c.Self())
	}
}

func TestLaterLayersCover(t *testing.T) {
	in := cell("--log-level", "debug")
	in.env = []string{"STOUTD_LOG_LEVEL=warn", "STOUTD_CLOCK_DRIFT=0.03", "PATH=/bin", "STOUT_SERVER=x"}
	in.file = "log-level: error\nclock-drift: 0.04\n\nmaster-lease: 3s\n"
	c := mustLoad(t, in)
	for _, test := range []struct {
		name, value string
		source      Source
	}{
		{"log-level", "debug", "flag --log-level"},
		{"clock-drift", "0.03", "environment STOUTD_CLOCK_DRIFT"},
		{"master-lease", "3s", "r.yaml:4"},
		{"log-format", "json", "default"},
	} {
		for _, s := range settings(c) {
			if s.name == test.name && (s.get() != test.value || c.Source(s.name) != test.source) {
				t.Errorf("%s = %s from %s, want %s from %s", s.name, s.get(), c.Source(s.name), test.value, test.source)
			}
		}
	}
}

func TestReplicasFromEnvironmentAndFile(t *testing.T) {
	want := mustLoad(t, cell()).Replicas
	texts := []string{formatReplica(want[0]), formatReplica(want[1]), formatReplica(want[2])}
	base := []string{"STOUTD_CELL=local", "STOUTD_ID=r1", "STOUTD_DATA_DIR=d"}
	file := "replicas:\n"
	for _, r := range want {
		file += "  - {id: " + r.ID + ", raft: \"" + r.RaftAddr + "\", api: \"" + r.APIURL + "\"}\n"
	}
	for name, in := range map[string]input{
		"semicolons": {env: append([]string{"STOUTD_REPLICA=" + strings.Join(texts, ";")}, base...)},
		"white":      {env: append([]string{"STOUTD_REPLICA= " + strings.Join(texts, "\n ")}, base...)},
		"file":       {env: base, file: file},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustLoad(t, in).Replicas; !reflect.DeepEqual(got, want) {
				t.Errorf("Replicas = %v, want %v", got, want)
			}
		})
	}
}

func TestTimingsFollowTheHeartbeat(t *testing.T) {
	c := mustLoad(t, cell("--heartbeat-timeout", "2s"))
	if c.ElectionTimeout != 2*time.Second || c.MasterLease != 2600*time.Millisecond {
		t.Errorf("election %s, lease %s; want 2s, 2.6s", c.ElectionTimeout, c.MasterLease)
	}
	if got := c.Source("master-lease"); got != "default, 1.3 × heartbeat-timeout" {
		t.Errorf("source of the lease: %q", got)
	}
}

func TestDevDescribesACellOfOne(t *testing.T) {
	c := mustLoad(t, input{args: []string{"--dev", "--api-listen", "0.0.0.0:8080", "--raft-listen", "127.0.0.1:0"}})
	want := Replica{ID: "r1", RaftAddr: "127.0.0.1:0", APIURL: "http://127.0.0.1:8080"}
	if c.Self() != want || c.DataDir != "" || c.Cell != "dev" {
		t.Errorf("Load = %+v, want the replica %v", c, want)
	}
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	c, err := load(t, input{args: []string{"--cell", "a b", "--master-lease", "2m"}, env: []string{"STOUTD_NOISE=x"}, file: "lease: 3s\n"})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) < 6 || c == nil {
		t.Fatalf("Load: %v", err)
	}
	for _, want := range []string{
		`lease (r.yaml:1): no setting has this name; did you mean master-lease?`,
		`STOUTD_NOISE "x" (environment): no setting has this name`,
		`cell "a b" (flag --cell): a name is`,
		`master-lease "2m0s" (flag --master-lease): at most 1m0s`,
		`data-dir: it is required`,
		`replica: it is required`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}
