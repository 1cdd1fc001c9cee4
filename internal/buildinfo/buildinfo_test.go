package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	vcs := func(revision, modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
	}
	for _, test := range []struct {
		name     string
		linked   string
		commit   string
		build    *debug.BuildInfo
		version  string
		revision string
	}{
		{"nothing known", "", "", nil, "devel", ""},
		{"go build in a tree", "", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("0123456789abcdef", "true")}, "devel", "0123456789ab+dirty"},
		{"go install of a release", "", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3", ""},
		{"the linker's word counts", "v2.0.0", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: vcs("abc", "false")}, "v2.0.0", "abc"},
		{"a release", "v2.0.0", "0123456789ab", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "v2.0.0", "0123456789ab"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := describe(test.linked, test.commit, test.build)
			if got.Version != test.version || got.Revision != test.revision {
				t.Errorf("describe = %q %q, want %q %q", got.Version, got.Revision, test.version, test.revision)
			}
		})
	}
}

func TestGetIsComplete(t *testing.T) {
	if i := Get(); i.Version == "" || i.Go == "" || i.Platform == "" || i.String() == "" || Version() != i.Version {
		t.Errorf("Get() = %+v", i)
	}
}
