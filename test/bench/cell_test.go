package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/bench/internal/report"
)

// patient are settings under which a busy machine costs no master its office, and
// no session its life.
var patient = []string{"--stoutd-arg=--heartbeat-timeout=2s", "--ttl", "4s", "--timeout", "15m"}

// TestAgainstACell runs every work that runs without being named against a cell
// of real processes, as short as it goes, in both ways: no operation fails, and
// every work tells its figures.
func TestAgainstACell(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results.json")
	plot := filepath.Join(t.TempDir(), "plot.svg")
	var stdout, stderr strings.Builder
	code := run(t.Context(), append([]string{
		"--n", "2", "--via", "sdk,http", "--runs", "1", "--warmup", "100ms", "--duration", "200ms", "--kills", "1",
		"--json", results, "--plot", plot}, patient...), &stdout, &stderr)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	var got report.Report
	content, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 2*len(defaultWorks()) {
		t.Errorf("%d rows, want 2 for each of %v\n%s", len(got.Rows), defaultWorks(), stdout.String())
	}
	for _, row := range got.Rows {
		switch {
		case row.Load != nil:
			if row.Load.Rate.Median <= 0 || row.Load.P50.Median <= 0 || row.Load.Errors > 0 {
				t.Errorf("%s via %s: %+v", row.Work, row.Via, row.Load)
			}
		case row.Idle != nil:
			if row.Idle.Expired > 0 || row.Idle.MasterRSS <= 0 {
				t.Errorf("%s via %s: %+v", row.Work, row.Via, row.Idle)
			}
		case row.Failover == nil || row.Failover.Median <= 0:
			t.Errorf("%s via %s: %+v", row.Work, row.Via, row)
		}
	}
	if info, err := os.Stat(plot); err != nil || info.Size() == 0 {
		t.Errorf("plot: %v", err)
	}
}

// TestLoadsThatHurt runs two of them as small as they go: the other client is
// served and watched, and the figures are told.
func TestLoadsThatHurt(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results.json")
	var stdout, stderr strings.Builder
	code := run(t.Context(), append([]string{"waiters", "return", "--n", "8", "--json", results}, patient...), &stdout, &stderr)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	var got report.Report
	content, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 2 {
		t.Fatalf("%d rows\n%s", len(got.Rows), stdout.String())
	}
	for _, row := range got.Rows {
		if o := row.Overload; o == nil || o.Calm.Count == 0 || o.Under.Count == 0 || o.RSSMost < o.RSSBefore || len(o.Notes) == 0 {
			t.Errorf("%s: %+v", row.Work, o)
		}
	}
	if !strings.Contains(stdout.String(), "hand-overs/s") {
		t.Error(stdout.String())
	}
}

// TestFilesForMany runs the works of many watchers and of a process that dies,
// as small as they go.
func TestFilesForMany(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results.json")
	var stdout, stderr strings.Builder
	code := run(t.Context(), append([]string{"fanout", "ephemeral", "--n", "8", "--via", "sdk,http", "--runs", "1", "--warmup", "50ms",
		"--duration", "200ms", "--json", results}, patient...), &stdout, &stderr)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	var got report.Report
	content, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 3 {
		t.Fatalf("%d rows\n%s", len(got.Rows), stdout.String())
	}
	for _, row := range got.Rows[:2] {
		f := row.Fanout
		if f == nil {
			t.Fatalf("%+v", row)
		}
		for name, l := range map[string]*report.Load{"alone": f.Alone, "under": f.Under, "watched": f.Watched, "unwatched": f.Unwatched} {
			if l.Rate.Median <= 0 || l.P50.Median <= 0 || l.Errors > 0 {
				t.Errorf("fanout via %s, %s: %+v", row.Via, name, l)
			}
		}
	}
	if f := got.Rows[2].Farewell; f == nil || f.Sessions != 8 || f.Gone.Median <= 0 || f.Parted > 0 {
		t.Errorf("ephemeral: %+v", got.Rows[2])
	}
	for _, want := range []string{"last told", "gone after"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, stdout.String())
		}
	}
}

// TestManyFiles runs the work files with a few.
func TestManyFiles(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results.json")
	var stdout, stderr strings.Builder
	code := run(t.Context(), append([]string{"files", "--n", "100", "--runs", "1", "--warmup", "50ms", "--duration", "1s",
		"--beside-snapshots", "1s", "--json", results}, patient...), &stdout, &stderr)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	var got report.Report
	content, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 1 || got.Rows[0].Filled == nil {
		t.Fatalf("%+v", got.Rows)
	}
	f := got.Rows[0].Filled
	if f.ContentMiB != 100.0/1024 || f.Own.Full <= 0 || f.OwnMost <= 0 || f.Empty.Rate.Median <= 0 || f.Full.Rate.Median <= 0 || f.Calm.Count == 0 {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(stdout.String(), "no snapshot was seen") {
		t.Error(stdout.String())
	}
}

// TestSecuredCells: a cell with TLS, access and rules takes the same loads, and is
// compared with a plain one.
func TestSecuredCells(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	for _, args := range []string{
		"secured --n 2 --rules 20",
		"cycle get handshake --secure --access --rules 1 --n 2 --via sdk,http",
	} {
		results := filepath.Join(t.TempDir(), "results.json")
		var stdout, stderr strings.Builder
		args += " --runs 1 --warmup 100ms --duration 200ms --json " + results
		if code := run(t.Context(), append(strings.Fields(args), patient...), &stdout, &stderr); code != exitOK {
			t.Fatalf("%s: exit code %d\n%s", args, code, stderr.String())
		}
		var got report.Report
		content, err := os.ReadFile(results)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, &got); err != nil {
			t.Fatal(err)
		}
		compared := 0
		for _, row := range got.Rows {
			if row.Load == nil || row.Load.Rate.Median <= 0 || row.Load.Errors > 0 {
				t.Errorf("%s via %s: %+v", row.Work, row.Via, row.Load)
			} else if row.Load.OfPlain.Median > 0 {
				compared++
			}
		}
		if want := strings.Count(args, "secured") * 2; compared != want || len(got.Rows) < 4 {
			t.Errorf("%s: %d rows, of which %d are compared; want %d", args, len(got.Rows), compared, want)
		}
	}
}

// TestRenewal has a small cell get new machines under load: nobody is refused,
// no session is lost, and mastership changes hands as often as it is handed over.
func TestRenewal(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results.json")
	var stdout, stderr strings.Builder
	code := run(t.Context(), append([]string{"renewal", "--n", "8", "--warmup", "100ms", "--duration", "100ms", "--json", results}, patient...), &stdout, &stderr)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	var got report.Report
	content, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 8 {
		t.Fatalf("%d rows\n%s", len(got.Rows), stdout.String())
	}
	for _, row := range got.Rows {
		if r := row.Renewal; r == nil || r.Under.Count == 0 || r.Lost > 0 || r.Gap <= 0 {
			t.Errorf("%+v", r)
		}
	}
}
