package boottime

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The system's alarm uses CLOCK_BOOTTIME and is set to an instant of Now. By
// waiting, only a test that suspends the machine could distinguish it from
// CLOCK_MONOTONIC.
func TestTimerfdGoesByBoottime(t *testing.T) {
	rang := make(chan struct{}, 1)
	a, ok := newAlarm(func() { rang <- struct{}{} }).(*timerfd)
	if !ok {
		t.Fatal("no timerfd is available")
	}
	defer a.close()
	a.set(Now() + time.Hour)
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", a.fd))
	if err != nil {
		t.Skipf("the system does not report the clock: %v", err)
	}
	for _, want := range []string{"clockid: 7\n" /* CLOCK_BOOTTIME */, "settime flags: 01\n", "it_value: (3599,"} {
		if !strings.Contains(string(info), want) {
			t.Errorf("no %q in\n%s", want, info)
		}
	}
	a.set(0) // long ago
	<-rang
}
