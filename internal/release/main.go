// Command release makes the parts of a release of Stout: archives, packages for
// Debian and RPM, a container image, bills of materials and checksums. `make
// release` and `make image` run it.
//
// The same commit and the same Go version give the same bytes, independent of
// machine, date and directory. Times are SOURCE_DATE_EPOCH, or the time of the
// commit.
//
// It is a separate module, so that its dependencies do not affect the versions
// that the programs are built from.
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
	out := flags.String("out", "", "the `directory` to write to; its content is replaced")
	version := flags.String("version", "", "the `version` of the release (default: the output of git describe)")
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

// writeAll makes all parts of a release from the built programs.
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

// emptyDir creates a directory, or removes the output of an earlier run. It
// refuses a directory with any other content.
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
