package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// target is a platform to build programs for.
type target struct {
	os, arch string
	programs []string
}

func (t target) String() string { return t.os + "/" + t.arch }

// targets lists the platforms of a release. stoutd needs a system that can sync
// disks and lock files as Unix does.
var targets = []target{
	{"linux", "amd64", []string{"stout", "stoutd"}},
	{"linux", "arm64", []string{"stout", "stoutd"}},
	{"darwin", "amd64", []string{"stout", "stoutd"}},
	{"darwin", "arm64", []string{"stout", "stoutd"}},
	{"windows", "amd64", []string{"stout"}},
}

func allTargets() (names []string) {
	for _, t := range targets {
		names = append(names, t.String())
	}
	return names
}

func chooseTargets(list string) (chosen []target, err error) {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(allTargets(), name)
		if i < 0 {
			return nil, fmt.Errorf("target %q: it is one of %s", name, strings.Join(allTargets(), ", "))
		}
		chosen = append(chosen, targets[i])
	}
	return chosen, nil
}

// build is the programs for a target, with related files.
type build struct {
	target   target
	programs []file // sorted by name
	bom      []byte
	notices  []byte // licences of third parties
}

// tags connect the stores' metrics to stoutd's registry, as in the Makefile.
const tags = "hashicorpmetrics"

// build runs the go command. The programs contain nothing about the place of
// the build: no paths, and only the version data of the release.
func (r release) build(t target, dir string) (build, error) {
	const info = "github.com/stoutlock/stout/internal/buildinfo"
	args := []string{"build", "-C", r.root, "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags", tags,
		"-ldflags", fmt.Sprintf("-s -w -buildid= -X %[1]s.version=%[2]s -X %[1]s.revision=%[3]s", info, r.version, r.revision),
		"-o", dir + string(filepath.Separator)}
	if r.quick { // it shares what go vet and go test have compiled
		args = slices.DeleteFunc(args, func(a string) bool { return a == "-trimpath" })
	}
	for _, p := range t.programs {
		args = append(args, "./cmd/"+p)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return build{}, err
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0",
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GODEBUG=", "GOFIPS140=off")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return build{}, fmt.Errorf("go build for %s: %w\n%s", t, err, said.String())
	}
	b := build{target: t}
	var infos []*buildinfo.BuildInfo
	for _, p := range t.programs {
		if t.os == "windows" {
			p += ".exe"
		}
		name := filepath.Join(dir, p)
		body, err := os.ReadFile(name)
		if err != nil {
			return b, err
		}
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return b, err
		}
		infos = append(infos, info)
		b.programs = append(b.programs, file{name: p, mode: 0o755, body: body})
	}
	mods := modules(infos)
	var err error
	if b.bom, err = r.bom(t, infos[0].GoVersion, mods); err != nil {
		return b, err
	}
	b.notices, err = r.notices(mods)
	return b, err
}
