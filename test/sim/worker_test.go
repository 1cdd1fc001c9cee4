package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowIsNotHung: the alarm is raised only if one seed takes too much
// processor time, or none. It does not depend on the total time, or on a small
// share of a processor.
func TestSlowIsNotHung(t *testing.T) {
	for _, c := range []struct {
		name    string
		share   time.Duration // of a processor, in percent
		unknown bool
		after   time.Duration // without a line
	}{
		{"busy", 100, false, time.Minute},
		{"with a tenth of a processor", 10, false, 8 * time.Minute},
		{"idle", 0, false, time.Minute},
		{"where nobody knows", 100, true, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var hung atomic.Bool
				l := lookout{patience: time.Minute, alarm: func() { hung.Store(true) }}
				defer l.watch(func() (time.Duration, bool) { return time.Since(began) * c.share / 100, !c.unknown })()
				for range 10 {
					time.Sleep(59 * time.Second)
					if _, err := l.Write([]byte("seed 7\n")); err != nil || hung.Load() {
						t.Fatal("the alarm was raised although seeds continue", err)
					}
				}
				time.Sleep(c.after - time.Second)
				if hung.Load() {
					t.Error("the alarm was raised too early")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if !hung.Load() {
					t.Error("no alarm")
				}
				if lastSeed(l.Bytes()) != 7 {
					t.Errorf("the last seed is %d", lastSeed(l.Bytes()))
				}
			})
		})
	}
}

// TestSpent: a process has used the time for which it was busy.
func TestSpent(t *testing.T) {
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
	now, known := spent(os.Getpid())
	if _, err := os.Stat("/proc/self/stat"); err == nil && (!known || now <= 0) {
		t.Errorf("%v, %v", now, known)
	}
	if _, known := spent(-1); known {
		t.Error("it knows a process that does not exist")
	}
}

// TestHungOnce: a process that hangs is run again, and its output is kept.
func TestHungOnce(t *testing.T) {
	kept := patience
	defer func() { patience = kept }()
	patience = func(job) time.Duration { return time.Second }
	for _, c := range []struct {
		name, script string
		fails        bool
	}{
		{"once", `if mkdir ran; then echo seed 7 >&2; exec sleep 600; fi; echo '{"sum":5}'`, false},
		{"always", "echo seed 7 >&2; exec sleep 600", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			p := program{path: filepath.Join(t.TempDir(), "world.test")}
			if err := os.WriteFile(p.path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			report, said, err := p.insist(t.Context(), job{seed: 7, seeds: 1})
			if err != nil || (report.Failure != nil) != c.fails {
				t.Fatalf("%+v, %v\n%s", report, err, said)
			}
			kept, err := os.ReadFile(filepath.Join(filepath.Dir(p.path), "hung-7.txt"))
			if !c.fails && (err != nil || report.Stats.Checks["hung once"] != 1 || !strings.Contains(string(kept), "seed 7")) {
				t.Errorf("%+v, %v, kept is %q", report.Stats.Checks, err, kept)
			}
		})
	}
}

// TestFaultOfTheHost: a process that the host ends has found nothing.
func TestFaultOfTheHost(t *testing.T) {
	for script, host := range map[string]bool{
		"kill -9 $$": true,
		`echo '{"failure":{"what":"replica r1 ends by itself: no space left on device"}}'; exit 1`: true,
		"echo '[signal SIGBUS: bus error code=0x2]' >&2; exit 2":                                   true,
		"echo 'panic: a fault of the product' >&2; exit 2":                                         false,
	} {
		p := program{path: filepath.Join(t.TempDir(), "world.test")}
		if err := os.WriteFile(p.path, []byte("#!/bin/sh\necho seed 7 >&2\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		report, _, err := p.run(t.Context(), job{seed: 7, seeds: 1})
		if (err != nil) != host || !host && report.Failure == nil {
			t.Errorf("%s: %+v, %v", script, report.Failure, err)
		}
	}
}
