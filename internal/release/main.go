// Command release makes what a release of Stout consists of: archives, packages
// for Debian and RPM, a container image, bills of materials and checksums. It is
// run by `make release` and `make image`.
//
// The same commit and the same Go give the same bytes: nothing of the machine, of
// the day or of the directory gets in. Times are SOURCE_DATE_EPOCH, or that of
// the commit.
//
// It is a module of its own, so that what it needs chooses no version of what the
// programs are built from.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(os.Stderr, "release: %v\n", err)
		}
		os.Exit(1)
	}
}

func run(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", "../..", "the `directory` of the sources")
	out := flags.String("out", "", "the `directory` to write to; what it has is replaced")
	version := flags.String("version", "", "the release, as git describe has it; default: what that says")
	targets := flags.String("targets", strings.Join(allTargets(), ","), "operating systems and architectures")
	image := flags.Bool("image", false, "make the image only, as a directory (OCI layout)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || flags.NArg() > 0 {
		return errors.New("usage: release --out DIRECTORY [--root DIRECTORY] [--version V] [--targets OS/ARCH,…] [--image]")
	}
	r, err := newRelease(*root, *version)
	if err != nil {
		return err
	}
	chosen, err := chooseTargets(*targets)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "stout-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var builds []build
	for _, t := range chosen {
		if *image && t.os != "linux" {
			continue
		}
		fmt.Fprintf(stderr, "%s %s\n", r.name(), t)
		b, err := r.build(t, filepath.Join(work, t.os+"_"+t.arch))
		if err != nil {
			return err
		}
		builds = append(builds, b)
	}
	if *image {
		return r.writeImage(*out, builds)
	}
	return r.writeAll(*out, builds)
}

// writeAll makes all that a release consists of from the built programs.
func (r release) writeAll(out string, builds []build) error {
	if err := emptyDir(out); err != nil {
		return err
	}
	var linux []build
	for _, b := range builds {
		if err := r.writeArchive(out, b); err != nil {
			return err
		}
		if b.target.os != "linux" {
			continue
		}
		linux = append(linux, b)
		if err := r.writePackages(out, b); err != nil {
			return err
		}
	}
	if len(linux) > 0 {
		if err := r.writeImageFile(out, linux); err != nil {
			return err
		}
	}
	return writeSums(out)
}

// emptyDir makes a directory, or takes away what an earlier run wrote there. One
// that holds anything else is refused.
func emptyDir(dir string) error {
	const mark = ".made-by-release"
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, mark)); err != nil {
			return fmt.Errorf("directory %q is not empty, and what it has is not of an earlier run: name another, or empty it", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, mark), nil, 0o644)
}
