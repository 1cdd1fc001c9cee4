package cli

import "testing"

func TestByteSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1 << 10: "1.0 KiB", 3 << 9: "1.5 KiB",
		1 << 20: "1.0 MiB", 512 << 20: "512.0 MiB", 5 << 30: "5.0 GiB", 1 << 42: "4096.0 GiB"} {
		if got := byteSize(n); got != want {
			t.Errorf("%d bytes read %q, want %q", n, got, want)
		}
	}
}
