package boottime

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The system's alarm uses CLOCK_BOOTTIME, and the instant that it is set to is
// one of Now's: what no test that does not suspend the machine could tell from
// CLOCK_MONOTONIC by waiting.
func TestTimerfdGoesByBoottime(t *testing.T) {
	rang := make(chan struct{}, 1)
	a, ok := newAlarm(func() { rang <- struct{}{} }).(*timerfd)
	if !ok {
		t.Fatal("no timerfd was to be had")
	}
	defer a.close()
	a.set(Now() + time.Hour)
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", a.fd))
	if err != nil {
		t.Skipf("the system does not tell: %v", err)
	}
	for _, want := range []string{"clockid: 7\n" /* CLOCK_BOOTTIME */, "settime flags: 01\n", "it_value: (3599,"} {
		if !strings.Contains(string(info), want) {
			t.Errorf("no %q in\n%s", want, info)
		}
	}
	a.set(0) // long ago
	<-rang
}
