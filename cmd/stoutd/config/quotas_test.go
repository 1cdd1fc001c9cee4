package config

import "testing"

func TestSizes(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "262145": 262145, "1536KiB": 3 << 19, "512MiB": 1 << 29, "2GiB": 2 << 30, "2048MiB": 2 << 30,
	} {
		n, err := readSize(text)
		if err != nil || n != want {
			t.Errorf("%s: %d, %v; want %d", text, n, err, want)
		}
		if again, err := readSize(writeSize(n)); err != nil || again != n {
			t.Errorf("%s is written as %s, which reads as %d, %v", text, writeSize(n), again, err)
		}
	}
	if got := writeSize(2 << 30); got != "2GiB" {
		t.Errorf("2 GiB is written as %s", got)
	}
}

// TestNoBound: 0 from any source is no bound.
func TestNoBound(t *testing.T) {
	in := cell("--max-sessions=0", "--max-bytes=0")
	in.file, in.env = "max-holds: 0\nmax-session-bytes: 0\n", []string{"STOUTD_MAX_WAITERS=0"}
	c := mustLoad(t, in)
	want := Default().Quotas
	want.Sessions, want.Bytes, want.Holds, want.Waiters, want.SessionBytes = 0, 0, 0, 0, 0
	if c.Quotas != want {
		t.Errorf("%+v, want %+v", c.Quotas, want)
	}
}
