package main

import (
	"context"
	"testing"
	"time"
)

// TestDemo: every step of `make demo` succeeds.
func TestDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // includes building
	defer cancel()
	must(t, run(ctx, []string{"demo"}))
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"walk"}, {"run", "demo"}, {"run", "--port", "x"}, {"run", "--ports", "1"}, {"demo", "--port", "1"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("run(%q) is accepted", args)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}, {"run", "--help"}} {
		if err := run(t.Context(), args); err != nil {
			t.Errorf("run(%q): %v", args, err)
		}
	}
}
