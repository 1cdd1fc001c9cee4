package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/internal/load"
)

func TestMain(m *testing.M) {
	testrun.Wait(4)
	os.Exit(m.Run())
}

// patient are settings under which neither an office nor a session ends on a
// busy machine.
var patient = []string{"--stoutd-arg=--heartbeat-timeout=2s", "--ttl", "4s", "--timeout", "15m"}

// measured runs a command line against a cell of real processes, and returns
// its rows and its table. On a machine with other work it runs longer, until
// each loop has an operation in its window.
func measured(t *testing.T, args string) ([]load.Row, string) {
	t.Helper()
	rows, table := measuredFor(t, args)
	for _, longer := range []string{" --duration 2s", " --duration 20s"} {
		if !slices.ContainsFunc(rows, isShort) {
			break
		}
		rows, table = measuredFor(t, args+longer)
	}
	return rows, table
}

// isShort reports whether a loop of a row ended before its first operation.
func isShort(r load.Row) bool {
	loops := []*load.Loop{r.Loop}
	if f := r.Fanout; f != nil {
		loops = append(loops, f.Alone, f.Under, f.Watched, f.Unwatched)
	}
	return slices.ContainsFunc(loops, func(l *load.Loop) bool { return l != nil && l.Rate.Median == 0 && l.Errors == 0 })
}

func measuredFor(t *testing.T, args string) ([]load.Row, string) {
	t.Helper()
	results := filepath.Join(t.TempDir(), "results.json")
	var stdout, stderr strings.Builder
	code := run(t.Context(), append(strings.Fields(args+" --json "+results), patient...), &stdout, &stderr)
	if code != exitOK {
		t.Fatalf("%s: exit code %d\n%s", args, code, stderr.String())
	}
	content, err := os.ReadFile(results)
	must(t, err)
	var got load.Report
	must(t, json.Unmarshal(content, &got))
	return got.Rows, stdout.String()
}

// checkLoop requires operations, and no failed ones.
func checkLoop(t *testing.T, l *load.Loop, what ...string) {
	t.Helper()
	if l == nil || l.Rate.Median <= 0 || l.P50.Median <= 0 || l.Errors > 0 {
		t.Errorf("%v: %+v", what, l)
	}
}

// TestAgainstACell runs the usual works as briefly as possible, in both ways:
// every operation succeeds, and every work has its figures.
func TestAgainstACell(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	rows, table := measured(t, "--n 2 --via sdk,http --runs 1 --warmup 100ms --duration 200ms --kills 1")
	if len(rows) != 2*len(usual) {
		t.Errorf("%d rows, want 2 for each of %v\n%s", len(rows), names(usual), table)
	}
	for _, row := range rows {
		switch {
		case row.Idle != nil:
			if row.Idle.Expired > 0 || row.Idle.MasterRSS <= 0 {
				t.Errorf("%s via %s: %+v", row.Work, row.Via, row.Idle)
			}
		case row.Failover != nil:
			if row.Failover.Median <= 0 {
				t.Errorf("%s via %s: %+v", row.Work, row.Via, row.Failover)
			}
		default:
			checkLoop(t, row.Loop, row.Work, row.Via)
		}
	}
}

// TestThroughTheDoor runs the works that a cell's doors can take, also with TLS
// and access control.
func TestThroughTheDoor(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	for _, secure := range []string{"", " --secure --access"} {
		rows, table := measured(t, "cycle read refuse put get cas --n 2 --via http,door --runs 1 --warmup 100ms --duration 200ms"+secure)
		if len(rows) != 12 {
			t.Errorf("%d rows\n%s", len(rows), table)
		}
		for _, row := range rows {
			checkLoop(t, row.Loop, row.Work, row.Via)
		}
	}
}

// TestLoadThatHurts runs such a load as small as possible: the other client is
// served and measured, and the figures are shown.
func TestLoadThatHurts(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	rows, table := measured(t, "return --n 8")
	if len(rows) != 1 {
		t.Fatalf("%d rows\n%s", len(rows), table)
	}
	if o := rows[0].Overload; o == nil || o.Calm.Count == 0 || o.Under.Count == 0 || o.RSSMost < o.RSSBefore || len(o.Notes) == 0 {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(table, "all sessions back") {
		t.Error(table)
	}
}

// TestManyWatchers runs the work fanout as small as possible.
func TestManyWatchers(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	rows, table := measured(t, "fanout --n 8 --via sdk,http,door --runs 1 --warmup 50ms --duration 200ms")
	if len(rows) != 3 || !strings.Contains(table, "last event") {
		t.Fatalf("%d rows\n%s", len(rows), table)
	}
	for _, row := range rows {
		f := row.Fanout
		if f == nil {
			t.Fatalf("%+v", row)
		}
		for what, l := range map[string]*load.Loop{"alone": f.Alone, "under": f.Under, "watched": f.Watched, "unwatched": f.Unwatched} {
			checkLoop(t, l, "fanout", row.Via, what)
		}
	}
}

// TestSecuredCells: a cell with TLS, access control and rules runs the same
// loads, and is compared with a plain cell.
func TestSecuredCells(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	for args, want := range map[string]int{
		"secured --n 2 --rules 20":                                   2,
		"cycle get --secure --access --rules 1 --n 2 --via sdk,http": 0,
	} {
		rows, _ := measured(t, args+" --runs 1 --warmup 100ms --duration 200ms")
		compared := 0
		for _, row := range rows {
			checkLoop(t, row.Loop, row.Work, row.Via)
			if row.Loop != nil && row.Loop.OfPlain.Median > 0 {
				compared++
			}
		}
		if compared != want || len(rows) != 4 {
			t.Errorf("%s: %d rows, %d of them compared; want %d", args, len(rows), compared, want)
		}
	}
}
