package main

import "testing"

func TestRoomForGarbage(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want int
	}{
		{0, 400}, {1 << 20, 400}, {16 << 20, 400}, {64 << 20, 100}, {192 << 20, 33}, {4 << 30, 33},
	} {
		if got := gcPercent(test.live); got != test.want {
			t.Errorf("with %d MiB live GOGC is %d, want %d", test.live>>20, got, test.want)
		}
	}
}
