package peers

import (
	"strings"
	"testing"
)

// An older release sends no reading, and malformed readings are ignored.
func TestOtherClocks(t *testing.T) {
	for _, told := range []string{"", "x", "x ", " 5", "x -5", "x 5s", "x 99999999999999999999", strings.Repeat("x", 65) + " 5"} {
		if origin, reads, err := readClock(told); err == nil {
			t.Errorf("%q: %q, %v", told, origin, reads)
		}
	}
	if origin, reads, err := readClock("a1 5"); origin != "a1" || reads != 5 || err != nil {
		t.Errorf("%q, %v, %v", origin, reads, err)
	}
}
