package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the commands of the scripts: stoutlab itself, and exits, which
// runs a command and succeeds if the exit code is the expected one.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stoutlab": main, "exits": exits})
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

func exits() {
	want, _ := strconv.Atoi(os.Args[1])
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	got := 0
	if err := cmd.Run(); err != nil {
		exit, ran := errors.AsType[*exec.ExitError](err)
		if !ran {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		got = exit.ExitCode()
	}
	if got != want {
		fmt.Fprintf(os.Stderr, "exit code %d, want %d\n", got, want)
		os.Exit(1)
	}
}
