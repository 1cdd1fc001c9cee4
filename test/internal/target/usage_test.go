package target

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 2 0 -1 4194560 900 0 3 0 1234 66 0 0 20 0 9 0 5555 123456789 2500 18446744073709551615 1 1 0"
	for _, test := range []struct {
		line string
		want Usage
	}{
		{"811 (stoutd)" + rest, Usage{CPU: 13 * time.Second, RSS: 2500 * 4096}},
		{"811 (a) b (c d)" + rest, Usage{CPU: 13 * time.Second, RSS: 2500 * 4096}},
	} {
		got, err := parseStat(test.line, 4096)
		if err != nil || got != test.want {
			t.Errorf("%q: %+v, %v; want %+v", test.line, got, err, test.want)
		}
	}
	for _, line := range []string{"", "811 (stoutd) S 1 2", "811 stoutd S", "811 (x)" + strings.ReplaceAll(rest, "1234", "many")} {
		if got, err := parseStat(line, 4096); err == nil {
			t.Errorf("%q: %+v, want an error", line, got)
		}
	}
}

func TestParseMetrics(t *testing.T) {
	const page = "# HELP process_cpu_seconds_total x\nprocess_cpu_seconds_total 12.5\nprocess_open_fds 9\nprocess_resident_memory_bytes 5.24288e+07\n"
	got, err := parseMetrics(strings.NewReader(page))
	if want := (Usage{CPU: 12500 * time.Millisecond, RSS: 50 << 20}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, page := range []string{"", "process_cpu_seconds_total 1\n", "process_cpu_seconds_total x\nprocess_resident_memory_bytes 1\n"} {
		if got, err := parseMetrics(strings.NewReader(page)); err == nil {
			t.Errorf("%q: %+v, want an error", page, got)
		}
	}
}

// TestOwnUsage: the kernel's figures for this process can be read.
func TestOwnUsage(t *testing.T) {
	if OwnCPU() <= 0 {
		t.Error("this process has used no time")
	}
	got, err := ProcessUsage(os.Getpid())
	if os.IsNotExist(err) {
		return // without /proc the cells' metrics are used
	}
	if err != nil || got.RSS < 1<<20 {
		t.Errorf("usage %+v, %v; want at least a MiB of memory", got, err)
	}
}
