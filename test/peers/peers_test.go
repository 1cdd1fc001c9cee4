package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
)

// TestStout runs all works that make no kill, in Stout alone.
func TestStout(t *testing.T) {
	testrun.E2E(t)
	t.Chdir("../..") // stoutd is built from the sources there
	names := strings.Join(workNames()[:len(works)-1], ",")
	var table strings.Builder
	args := []string{"--only", names, "--runs", "1", "--duration", "200ms", "--warmup", "50ms"}
	if err := run(t.Context(), args, &table, io.Discard); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(table.String()), "\n")[2:]
	want := 0
	for _, w := range works[:len(works)-1] {
		want += len(w.sessions)
	}
	if len(rows) != want || strings.Contains(table.String(), "errors") {
		t.Errorf("%d rows, want %d without errors:\n%s", len(rows), want, table.String())
	}
}

func TestChoose(t *testing.T) {
	if got, err := choose("put,cycle"); err != nil || len(got) != 2 || got[0].name != "cycle" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := choose("puts"); err == nil || !strings.Contains(err.Error(), `"puts"`) {
		t.Errorf("an unknown work: %v", err)
	}
}

// TestTable: the ratio is above 1 where Stout is better, also for gaps.
func TestTable(t *testing.T) {
	p := &peers{systems: []*system{{name: "Stout"}, {name: "etcd"}, {name: "ZooKeeper"}}}
	rows := []row{
		{works[0], 64, []figures{
			{rates: []float64{300, 100, 200}, cpu: []float64{150}},
			{rates: []float64{100}, cpu: []float64{400.4}, errors: 2, first: errors.New("timed out")},
			{rates: []float64{50}},
		}},
		{works[len(works)-1], 1, []figures{{rates: []float64{0.5}}, {rates: []float64{2}}, {rates: []float64{1}}}},
	}
	const want = `| work | sessions | Stout | etcd | ZooKeeper | Stout × best | CPU Stout | CPU etcd | CPU ZooKeeper |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| acquire + release | 64 | 200 | 100 | 50 | 2.00 | 150 | 400 | – |
| gap after ` + "`kill -9`" + ` of the leader | 1 | 0.50 s | 2.00 s | 1.00 s | 2.00 | – | – | – |

etcd, cycle with 64 sessions: 2 errors, the first: timed out
`
	var got strings.Builder
	if err := p.show(&got, rows); err != nil || got.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got.String(), want)
	}
}
