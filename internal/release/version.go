package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// release has the properties shared by all parts of a release.
type release struct {
	root     string
	version  string // as the programs report it: v1.2.3
	number   string // as packages have it: 1.2.3, or 1.2.3+4.g0123456 after it
	revision string // of the commit; empty if git does not know it
	time     time.Time
	quick    bool // for tests of other properties: omit the flags that make builds reproducible
}

// newRelease asks git for values that are not given.
func newRelease(root, version string) (release, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return release{}, err
	}
	r := release{root: root, version: version}
	if r.version == "" {
		if r.version, err = r.git("describe", "--tags", "--always", "--dirty"); err != nil {
			return r, fmt.Errorf("which version is it? Give --version: %w", err)
		}
	}
	if r.time, err = r.when(); err != nil {
		return r, err
	}
	r.revision, _ = r.git("rev-parse", "--short=12", "HEAD")
	r.number, err = number(r.version, r.time)
	return r, err
}

// when returns the time stamp of all files.
func (r release) when() (time.Time, error) {
	said, from := os.Getenv("SOURCE_DATE_EPOCH"), "SOURCE_DATE_EPOCH"
	if said == "" {
		var err error
		if said, err = r.git("log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, fmt.Errorf("when was it made? Give SOURCE_DATE_EPOCH, in seconds: %w", err)
		}
		from = "git's time of the commit"
	}
	seconds, err := strconv.ParseInt(said, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("%s is %q: it is a number of seconds since 1970", from, said)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func (r release) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.root}, args...)...)
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		return "", fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

var (
	tagged = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)??)(?:-(\d+)-(g[0-9a-f]+))?(-dirty)?$`)
	commit = regexp.MustCompile(`^([0-9a-f]{7,40}|devel)(-dirty)?$`)
)

// number converts the output of git describe to a version that packages can
// compare. A commit after a tag has a higher version than the tag. Without any
// tag it is 0.0.0 with the commit and its time, so that a later commit has a
// higher version.
func number(version string, at time.Time) (string, error) {
	if m := commit.FindStringSubmatch(version); m != nil {
		return "0.0.0+" + at.Format("20060102150405") + ".g" + m[1] + strings.ReplaceAll(m[2], "-", "."), nil
	}
	m := tagged.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("version %q: it is one like v1.2.3, v1.2.3-rc.1, v1.2.3-4-g0123456 or a commit", version)
	}
	var after []string
	if m[2] != "" {
		after = append(after, m[2], m[3])
	}
	if m[4] != "" {
		after = append(after, "dirty")
	}
	if len(after) == 0 {
		return m[1], nil
	}
	return m[1] + "+" + strings.Join(after, "."), nil
}

func (r release) name() string { return "stout_" + r.number }
