package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestChaos is the short run for every change: a cell of three, a fresh seed,
// and as many of these faults as fit into the time. A grant may take longer than
// in make chaos, because other tests load the machine.
func TestChaos(t *testing.T) {
	testrun.E2E(t)
	const faults = "kill,pause,isolate,one-way,lossy,transfer,restart,replace,upgrade,backup,log-reader,disk-full,stopped-at"
	var stdout, progress bytes.Buffer
	code := run(t.Context(), []string{"--size", "3", "--duration", "25s", "--grant-within", "10s", "--faults", faults}, &stdout, &progress)
	t.Logf("%s\n%s", &progress, &stdout)
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(stdout.String(), "no problem was found") {
		t.Error("the summary does not say that no problem was found")
	}
}

// prepared returns a trial with the given program as stoutd. Its replicas have
// not started yet.
func prepared(t *testing.T, program string) *trial {
	t.Helper()
	s, err := parse([]string{"--seed", "5", "--dir", t.TempDir(), "--duration", "1m", "--faults", "kill,pause", "--stoutd", program}, io.Discard)
	must(t, err)
	tr, err := newTrial(s, 3, io.Discard)
	must(t, err)
	t.Cleanup(func() { _ = tr.close() })
	for _, r := range tr.cell.Replicas() {
		must(t, os.WriteFile(r.LogFile, nil, 0o600))
	}
	return tr
}

// TestProblemsAreKept: a trial with problems stays on disk, with the command
// that repeats it, and can be checked again from there. A trial without
// problems leaves no file.
func TestProblemsAreKept(t *testing.T) {
	tr := prepared(t, "stoutd")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"path":"/l","state":"held","holders":[{"session":"S","handle":"h","mode":"exclusive","token":3}]}`)
	}))
	defer server.Close()
	if _, err := (&http.Client{Transport: tr.recorder.Transport("c", nil)}).Get(server.URL + "/v1/locks/l"); err != nil {
		t.Fatal(err)
	}
	log := []byte(`{"level":"error","message":"disk on fire"}` + "\n")
	must(t, os.WriteFile(tr.cell.Replica("r2").LogFile, log, 0o600))
	tr.check()
	tr.note(tr.save())
	must(t, tr.close())
	text, err := os.ReadFile(filepath.Join(tr.dir, "problems.txt"))
	must(t, err)
	for _, want := range []string{"the record of /l is not", "replica r2 wrote", "disk on fire", "l.html", `make chaos ARGS="--seed 5 --size 3 --duration 1m0s --faults kill,pause"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("problems.txt lacks %q:\n%s", want, text)
		}
	}
	for _, name := range []string{"history.json", "l.html", "nemesis.log"} {
		if _, err := os.Stat(filepath.Join(tr.dir, name)); err != nil {
			t.Error(err)
		}
	}
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"--check", filepath.Join(tr.dir, "history.json")}, io.Discard, &stderr); code != exitFault || !strings.Contains(stderr.String(), "the record of /l is not") {
		t.Errorf("checked again: exit code %d, %s", code, &stderr)
	}
}

func TestNothingIsKeptOfARunWithoutProblems(t *testing.T) {
	tr := prepared(t, "stoutd")
	tr.check()
	if len(tr.problems) > 0 {
		t.Fatalf("problems of nothing: %q", tr.problems)
	}
	must(t, tr.close())
	if _, err := os.Stat(tr.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", tr.dir, err)
	}
}

// TestReplicaThatEndsIsAProblem: the run ends when a process does, and reports
// it.
func TestReplicaThatEndsIsAProblem(t *testing.T) {
	testrun.E2E(t)
	script := filepath.Join(t.TempDir(), "ends")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\necho '{\"level\":\"info\"}'\nexit 74\n"), 0o700))
	tr := prepared(t, script)
	for _, r := range tr.cell.Replicas() {
		must(t, r.Start())
		<-r.Exited()
	}
	ctx, cancel := context.WithTimeout(t.Context(), cell.StartTimeout)
	defer cancel()
	tr.watchProcesses(ctx, cancel)
	tr.note(tr.recover(t.Context()))
	if all := strings.Join(tr.problems, "\n"); !strings.Contains(all, "replica r1 ended unexpectedly (exit status 74)") {
		t.Errorf("problems: %s", all)
	}
}

// TestRunThatCannotBegin: faults that do not fit the cell are reported, and the
// run leaves no files.
func TestRunThatCannotBegin(t *testing.T) {
	dir := t.TempDir()
	var stderr bytes.Buffer
	args := []string{"--size", "3", "--faults", "ring", "--dir", dir, "--stoutd", "stoutd"}
	if code := run(t.Context(), args, io.Discard, &stderr); code != exitFault || !strings.Contains(stderr.String(), "ring does not fit a cell of 3 replicas") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestRefusedSettings(t *testing.T) {
	for _, args := range [][]string{
		{"--size", "2"}, {"--faults", "earthquake"}, {"--duration", "0s"}, {"--sdk", "0", "--http", "1"}, {"--epoch", "1ms"}, {"fast"}, {"--unknown"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, io.Discard, &stderr); code != exitUsage || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, &stderr)
		}
	}
	if code := run(t.Context(), []string{"--help"}, io.Discard, io.Discard); code != exitOK {
		t.Errorf("--help: exit code %d", code)
	}
}
