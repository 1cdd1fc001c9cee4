package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/test/history"
)

// TestSumsThatDiffer: equal sums at equal index are right, and so are different
// sums at different indexes.
func TestSumsThatDiffer(t *testing.T) {
	s := NewSums()
	s.Add(5, "r1", "aa")
	s.Add(5, "r2", "aa")
	s.Add(5, "r2", "aa")
	s.Add(9, "r1", "bb")
	if p := s.Problems(); len(p) > 0 || s.Compared() != 1 || s.Latest(2) != 5 || s.Latest(1) != 9 {
		t.Fatalf("problems %v, compared %d, latest %d and %d", p, s.Compared(), s.Latest(2), s.Latest(1))
	}
	s.Add(9, "r3", "bc")
	if p := strings.Join(s.Problems(), "; "); !strings.Contains(p, "entry 9 has the sum bc at r3 and bb at r1") {
		t.Errorf("problems: %q", p)
	}
}

func TestSumIsReadFromMetrics(t *testing.T) {
	const metrics = "# TYPE stout_state_checksum gauge\nother 1\nstout_state_checksum 1.2e+14\nstout_state_checksum_index 1.234567e+06\nmore 2\n"
	if index, sum, ok := parse(strings.NewReader(metrics)); !ok || index != 1234567 || sum != "1.2e+14" {
		t.Errorf("read %d %q %v", index, sum, ok)
	}
	for _, none := range []string{"other 1\n", "stout_state_checksum 0\nstout_state_checksum_index 0\n"} {
		if _, _, ok := parse(strings.NewReader(none)); ok {
			t.Errorf("read a sum from %q", none)
		}
	}
}

func TestSuspiciousLines(t *testing.T) {
	for line, want := range map[string]bool{
		`{"level":"info","message":"in office"}`:           false,
		`{"level":"warn","message":"a replica is silent"}`: false,
		`{"level":"error","message":"ending on a fault"}`:  true,
		`{"level":"fatal"}`:                                true,
		`{"message":"without a level"}`:                    true,
		`WARNING: DATA RACE`:                               true,
		`panic: runtime error: index out of range`:         true,
		``: false,
	} {
		if found, err := scan(strings.NewReader(line+"\n"), func(string) bool { return false }); err != nil || (len(found) == 1) != want {
			t.Errorf("%q: found %q, %v; want suspicious %v", line, found, err, want)
		}
	}
}

func TestServe(t *testing.T) {
	at := func(s int, epoch uint64, o history.Outcome) history.Attempt {
		return history.Attempt{Return: int64(s) * int64(time.Second), Epoch: epoch, Outcome: o}
	}
	got := Serve([]history.Attempt{at(1, 3, history.Done), at(2, 3, history.NoEffect), at(5, 4, history.Unknown), at(6, 4, history.Refused), at(8, 4, history.Done)})
	if want := (Service{Elections: 1, Gap: 5 * time.Second, GapAt: time.Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
