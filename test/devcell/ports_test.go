package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listening returns a function that reports exactly the given ports as taken.
func listening(on ...int) func(int) bool {
	return func(port int) bool { return slices.Contains(on, port) }
}

func TestPortsOfANewCell(t *testing.T) {
	for _, test := range []struct {
		name   string
		wanted int
		taken  []int
		want   ports
		err    string
	}{
		{"the usual ones", 0, nil, ports{7101, 7201}, ""},
		{"one API's is taken", 0, []int{7103}, ports{7111, 7211}, ""},
		{"one raft's is taken", 0, []int{7202}, ports{7111, 7211}, ""},
		{"the next ones, too", 0, []int{7103, 7112}, ports{7121, 7221}, ""},
		{"all are taken", 0, []int{7101, 7111, 7121, 7131, 7141, 7151, 7161, 7171, 7181, 7191}, ports{}, `make run ARGS="--port 12000"`},
		{"asked for", 9001, []int{7101}, ports{9001, 9101}, ""},
		{"asked for and taken", 9001, []int{9102}, ports{}, "--port 9001: port 9102 is taken"},
		{"asked for and none", 80, nil, ports{}, "--port 80: want a port within 1024..65432"},
		{"asked for and too high", 65500, nil, ports{}, "--port 65500: want a port within"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			got, err := choosePorts(dir, test.wanted, listening(test.taken...))
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("choosePorts = %v, %v; want %v, %q", got, err, test.want, test.err)
			}
			if kept, err := readPorts(dir); err != nil || kept != test.want {
				t.Errorf("kept with the data: %v, %v; want %v", kept, err, test.want)
			}
		})
	}
}

// TestPortsStayWithTheData: the members of a cell know each other's addresses.
func TestPortsStayWithTheData(t *testing.T) {
	dir := t.TempDir()
	first, err := choosePorts(dir, 0, listening(7101))
	must(t, err)
	if again, err := choosePorts(dir, 0, listening()); err != nil || again != first {
		t.Errorf("with the usual ports free again: %v, %v; want %v", again, err, first)
	}
	if again, err := choosePorts(dir, first.API, listening()); err != nil || again != first {
		t.Errorf("asked for what it has: %v, %v; want %v", again, err, first)
	}
	for _, test := range []struct {
		wanted int
		taken  []int
		want   []string
	}{
		{0, []int{first.Raft}, []string{"port 7211 is taken", "keeps the ports", `make run ARGS="--data .stout2"`}},
		{9001, nil, []string{"--port 9001", "was founded on ports 7111 to 7113 and 7211 to 7213", "--data DIR"}},
	} {
		_, err := choosePorts(dir, test.wanted, listening(test.taken...))
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in: %v", want, err)
			}
		}
	}
}

func TestDamagedPortsAreNotGuessed(t *testing.T) {
	for _, content := range []string{"", "{}", "x"} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, portsFile), []byte(content), 0o600))
		if p, err := choosePorts(dir, 0, listening()); err == nil || !strings.Contains(err.Error(), portsFile) {
			t.Errorf("%q: %v, %v", content, p, err)
		}
	}
}

func TestOneProgramRunsACell(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := lockDir(dir)
	must(t, err)
	if second, err := lockDir(dir); err == nil || !strings.Contains(err.Error(), "is already running") {
		t.Errorf("a second lock: %v, %v", second, err)
	}
	_ = first.Close()
	again, err := lockDir(dir)
	must(t, err)
	_ = again.Close()
}

// TestBuildLeavesWhatMakeBuildMade: people run bin/stoutd and may have stamped
// it with a version, so build must not replace it.
func TestBuildLeavesWhatMakeBuildMade(t *testing.T) {
	if dir := binaries("/clone"); dir == "/clone/bin" || filepath.Dir(dir) != "/clone/bin" {
		t.Errorf("the programs of a local cell are built into %s", dir)
	}
}
