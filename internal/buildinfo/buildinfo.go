// Package buildinfo reports which build of Stout is running.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker: -ldflags "-X
// …/internal/buildinfo.version=v1.2.3". It is empty after a plain go build or
// go install.
var version string

// revision is the commit, set in the same way.
var revision string

// Info describes the running program's build.
type Info struct {
	// Version is the release, a pseudo-version, or "devel" if the build has no
	// version.
	Version string `json:"version"`
	// Revision is the commit, followed by "+dirty" if the tree had changes. It
	// is empty if unknown.
	Revision string `json:"revision,omitempty"`
	// Go is the toolchain, Platform the operating system and architecture.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns the running program's build.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return describe(version, revision, build)
}

// Version returns Get().Version.
func Version() string { return Get().Version }

// String returns one line for people.
func (i Info) String() string {
	if i.Revision == "" {
		return fmt.Sprintf("%s %s %s", i.Version, i.Go, i.Platform)
	}
	return fmt.Sprintf("%s (%s) %s %s", i.Version, i.Revision, i.Go, i.Platform)
}

// describe prefers the linker's values to the toolchain's.
func describe(linked, commit string, build *debug.BuildInfo) Info {
	info := Info{Version: linked, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build == nil {
		build = &debug.BuildInfo{}
	}
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	if info.Version == "" || info.Version == "(devel)" {
		info.Version = "devel"
	}
	var dirty string
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	if info.Revision != "" {
		info.Revision += dirty
	}
	if commit != "" {
		info.Revision = commit
	}
	return info
}
