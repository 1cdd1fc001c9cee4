package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTimerSlack: every thread of the program has the slack, an operator's larger
// one remains, and the mark in the environment is gone.
func TestTimerSlack(t *testing.T) {
	const child = "TEST_OF_STOUTD_PRINTS_SLACK"
	slack := func() int {
		n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err != nil {
			t.Skip("this kernel has no timer slack")
		}
		return n
	}
	if os.Getenv(child) != "" {
		raiseTimerSlack()
		fmt.Println("mark:", os.Getenv(executed))
		found := make(chan int)
		for range 8 {
			go func() {
				runtime.LockOSThread() // a thread of its own
				found <- slack()
				select {}
			}()
		}
		for range 8 {
			fmt.Println("slack:", <-found)
		}
		return
	}
	for _, operator := range []int{slack(), 2 * int(timerSlack)} {
		runtime.LockOSThread() // its slack is the child's
		defer runtime.UnlockOSThread()
		defer unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack()), 0, 0, 0)
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(operator), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTimerSlack$")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		want := "mark: \n" + strings.Repeat(fmt.Sprintln("slack:", max(operator, int(timerSlack))), 8)
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("with a slack of %d ns: %v\n%s, want\n%s", operator, err, out, want)
		}
	}
}
