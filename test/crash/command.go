package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/internal/overlay"
)

func command(out io.Writer) *cobra.Command {
	var (
		seed     uint64
		duration time.Duration
		dir      string
	)
	c := &cobra.Command{
		Use:           "crash",
		Short:         "Lose the power of a simulated disk under a replica's stores, at any point",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			root, err := cell.ModuleRoot()
			if err != nil {
				return err
			}
			program := filepath.Join(root, "bin", "crash-trial")
			if err := build(c.Context(), root, program, overlay.Overlay{}); err != nil {
				return err
			}
			cmd := exec.CommandContext(c.Context(), program, "-seed="+strconv.FormatUint(seed, 10), "-duration="+duration.String(), "-dir="+dir)
			cmd.Stdout, cmd.Stderr = out, os.Stderr
			return cmd.Run()
		},
	}
	f := c.Flags()
	f.Uint64Var(&seed, "seed", uint64(time.Now().UnixMilli()), "seed of the first life of a disk; later lives use the next seeds")
	f.DurationVar(&duration, "duration", time.Minute, "how long to start new lives")
	f.StringVar(&dir, "dir", filepath.Join(os.TempDir(), "stout-crash"), "directory for the disks (best in memory) and for the files of a failure")
	return c
}

// build builds package trial with everything that the stores do to a disk
// recorded.
func build(ctx context.Context, root, out string, base overlay.Overlay) error {
	o, err := overlay.Noted(ctx, root, base)
	if err != nil {
		return err
	}
	return overlay.Program(ctx, root, out, "./test/crash/trial", o, cell.BuildTags)
}
