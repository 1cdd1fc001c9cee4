// Package buildinfo tells which build of Stout this is.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is put in by the linker: -ldflags "-X
// …/internal/buildinfo.version=v1.2.3". Empty for a plain go build or go
// install.
var version string

// revision is the commit, put in likewise.
var revision string

// Info describes the running program's build.
type Info struct {
	// Version is the release, a pseudo-version, or "devel" where the build
	// knows of none.
	Version string `json:"version"`
	// Revision is the commit, with "+dirty" behind it where the tree had
	// changes; empty where the build knows of none.
	Revision string `json:"revision,omitempty"`
	// Go is the toolchain, Platform the operating system and architecture.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get describes the running program's build.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return describe(version, revision, build)
}

// Version is Get().Version.
func Version() string { return Get().Version }

// String is one line for a person.
func (i Info) String() string {
	if i.Revision == "" {
		return fmt.Sprintf("%s %s %s", i.Version, i.Go, i.Platform)
	}
	return fmt.Sprintf("%s (%s) %s %s", i.Version, i.Revision, i.Go, i.Platform)
}

// describe prefers what the linker was told over what the toolchain noted.
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
