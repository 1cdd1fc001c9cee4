//go:build faultpoints && unix

package faultpoint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// order replaces the file of orders.
func order(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name+".new", []byte(text), 0o600))
	must(t, os.Rename(name+".new", name))
}

func TestOrders(t *testing.T) {
	name := filepath.Join(t.TempDir(), "orders")
	t.Setenv(Variable, name)
	if err := Err(DiskWrite); err != nil {
		t.Errorf("without a file: %v", err)
	}
	order(t, name, DiskWrite+" full\n"+DiskSync+" sleep 30ms\n")
	if err := Err(DiskWrite); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: %v", err)
	}
	began := time.Now()
	if err := Err(DiskSync); err != nil || time.Since(began) < 30*time.Millisecond {
		t.Errorf("sleep: %v after %v", err, time.Since(began))
	}
	if err := Err(StoreCommit); err != nil {
		t.Errorf("a point without an order: %v", err)
	}
	order(t, name, "")
	if err := Err(DiskWrite); err != nil {
		t.Errorf("after the order has gone: %v", err)
	}
}

// TestWaitsEndWithTheirOrder: a call that hangs or sleeps continues when the
// order is gone.
func TestWaitsEndWithTheirOrder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "orders")
	t.Setenv(Variable, name)
	order(t, name, DiskSync+" hang\n"+StoreCommit+" sleep 1h\n")
	done := make(chan error, 2)
	for _, point := range []string{DiskSync, StoreCommit} {
		go func() { done <- Err(point) }()
	}
	must(t, os.Remove(name))
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestSignals: the process stops or kills itself at a point, and stops once for
// each line.
func TestSignals(t *testing.T) {
	const child = "FAULTPOINT_TEST_CHILD"
	if os.Getenv(child) != "" {
		Hit(Apply)
		Hit(Apply)
		os.Exit(7)
	}
	for action, want := range map[string]string{"pause": "exit status 7", "kill": "signal: killed"} {
		name := filepath.Join(t.TempDir(), "orders")
		order(t, name, Apply+" "+action+" 1\n")
		cmd := exec.Command(os.Args[0], "-test.run=^TestSignals$")
		cmd.Env = append(os.Environ(), child+"=1", Variable+"="+name)
		must(t, cmd.Start())
		if action == "pause" {
			var status syscall.WaitStatus
			for !status.Stopped() {
				if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
					t.Fatal(err)
				}
			}
			must(t, cmd.Process.Signal(syscall.SIGCONT))
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.String(); got != want {
			t.Errorf("%s: the process ended with %q, want %q", action, got, want)
		}
	}
}
