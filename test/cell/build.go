package cell

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// BuildTags are the build tags of every Stout binary. Without them, the stores'
// metrics do not reach Stout's registry.
const BuildTags = "hashicorpmetrics"

// faultTags are the build tags of a stoutd with fault points (package
// faultpoint).
const faultTags = BuildTags + ",faultpoints"

// stoutd builds the binary once for this test program; stoutdWithPoints builds
// it with fault points.
var (
	stoutd           = sync.OnceValues(func() (string, error) { return buildStoutd(BuildTags) })
	stoutdWithPoints = sync.OnceValues(func() (string, error) { return buildStoutd(faultTags) })
)

func buildStoutd(tags string) (string, error) {
	if name := os.Getenv("STOUT_TEST_STOUTD"); name != "" {
		return filepath.Abs(name)
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	dir := binDir(root, "cell", tags)
	if err := Build(context.Background(), root, dir, raceEnabled, "-tags="+tags, "./cmd/stoutd"); err != nil {
		return "", err
	}
	return filepath.Join(dir, "stoutd"), nil
}

// binDir returns the directory for binaries of one kind.
func binDir(root, name, tags string) string {
	if tags == faultTags {
		name += "-faults"
	}
	if raceEnabled {
		name += "-race"
	}
	return filepath.Join(root, "bin", name)
}

// HasFaultPoints reports whether a stoutd was built with fault points.
func HasFaultPoints(binary string) bool {
	info, err := buildinfo.ReadFile(binary)
	return err == nil && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "faultpoints")
	})
}

// Stout builds the command-line program once for this test program, without the
// race detector.
var Stout = sync.OnceValues(func() (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "cell")
	return filepath.Join(dir, "stout"), Build(context.Background(), root, dir, false, "./cmd/stout")
})

// Release is one release of stoutd.
type Release struct {
	Binary string
	Level  uint64 // highest level that it knows
}

// Pair is the stoutd of this release, and of the previous one, which knows one
// level less.
type Pair struct{ Present, Before Release }

// Releases builds both once; ReleasesWithPoints builds them with fault points.
var (
	Releases           = sync.OnceValues(func() (Pair, error) { return releases(BuildTags, stoutd) })
	ReleasesWithPoints = sync.OnceValues(func() (Pair, error) { return releases(faultTags, stoutdWithPoints) })
)

func releases(tags string, present func() (string, error)) (all Pair, err error) {
	root, err := ModuleRoot()
	if err != nil {
		return all, err
	}
	const name = "replica/state/level.go"
	source, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return all, err
	}
	found := level.FindSubmatchIndex(source)
	if found == nil {
		return all, fmt.Errorf("no level of this release in %s", name)
	}
	known, err := strconv.ParseUint(string(source[found[2]:found[3]]), 10, 64)
	if err != nil {
		return all, err
	}
	dir := binDir(root, "cell-before", tags)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return all, err
	}
	text := slices.Concat(source[:found[2]], strconv.AppendUint(nil, known-1, 10), source[found[3]:])
	file, config := filepath.Join(dir, "level"), filepath.Join(dir, "overlay.json") // bin must get no .go file
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, name): file}})
	if err != nil {
		return all, err
	}
	if err := errors.Join(os.WriteFile(file, text, 0o644), os.WriteFile(config, overlay, 0o644)); err != nil {
		return all, err
	}
	if err := Build(context.Background(), root, dir, raceEnabled, "-tags="+tags, "-overlay="+config, "./cmd/stoutd"); err != nil {
		return all, err
	}
	all.Before = Release{filepath.Join(dir, "stoutd"), known - 1}
	all.Present.Level = known
	all.Present.Binary, err = present()
	return all, err
}

var level = regexp.MustCompile(`(?m)^const Level = (\d+)$`)

// Build builds main packages of the module at root into dir. Flags of go build
// may precede the packages. Concurrent programs build one after the other. The
// other flags equal the flags of go test, so that its compiled packages are
// reused.
func Build(ctx context.Context, root, dir string, race bool, packages ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	args := []string{"build", "-tags", BuildTags, "-o", dir + string(filepath.Separator)}
	cgo := "CGO_ENABLED=0"
	if race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(packages, " "), err, out)
	}
	return nil
}

// ModuleRoot returns the nearest directory with a go.mod, from the working
// directory upwards.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in the working directory or above it: run this inside a clone")
		}
		dir = parent
	}
}
