package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if dir := builtIn; dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// built has the programs for this machine, built once for all tests.
type built struct {
	release release
	build   build
	dir     string
}

var (
	builtIn  string
	onceHost = sync.OnceValues(func() (*built, error) {
		r, err := newRelease("../..", "v0.0.1-test")
		if err != nil {
			return nil, err
		}
		r.quick = os.Getenv("STOUT_TEST") != "nightly"
		if builtIn, err = os.MkdirTemp("", "stout-release-test-"); err != nil {
			return nil, err
		}
		chosen, err := chooseTargets(runtime.GOOS + "/" + runtime.GOARCH)
		if err != nil {
			return nil, err
		}
		b, err := r.build(chosen[0], builtIn)
		return &built{r, b, builtIn}, err
	})
)

// hostBuild returns the build for this machine. It skips the test if a release has no
// stoutd for this system.
func hostBuild(t *testing.T) *built {
	t.Helper()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skipf("a release has no stoutd for %s", runtime.GOOS)
	}
	b, err := onceHost()
	must(t, err)
	return b
}

func (b *built) program(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(b.dir, name)
}

// TestSameBytes: the same programs are packed to the same bytes, at any time and in any
// directory. TestSameBuilds covers the programs themselves.
func TestSameBytes(t *testing.T) {
	r, builds := imagined(t)
	now, another := t.TempDir(), t.TempDir()
	must(t, r.writeAll(now, builds))
	synctest.Test(t, func(t *testing.T) { // at another time
		must(t, r.writeAll(another, builds))
	})
	same(t, now, another)

	sums, err := os.ReadFile(filepath.Join(now, "SHA256SUMS"))
	must(t, err)
	for _, want := range []string{
		"stout_1.2.3_linux_amd64.tar.gz", "stout_1.2.3_linux_arm64.tar.gz", "stout_1.2.3_darwin_amd64.tar.gz", "stout_1.2.3_darwin_arm64.tar.gz",
		"stout_1.2.3_windows_amd64.zip", "stout_1.2.3_windows_amd64.cdx.json",
		"stout_1.2.3-1_amd64.deb", "stout_1.2.3-1_arm64.deb", "stout-1.2.3-1.x86_64.rpm", "stout-1.2.3-1.aarch64.rpm", "stout_1.2.3_image.oci.tar",
	} {
		if !strings.Contains(string(sums), "  "+want+"\n") {
			t.Errorf("no %s in\n%s", want, sums)
		}
	}
	// The machine's name would be the same in both packages.
	if rpm, err := os.ReadFile(filepath.Join(now, "stout-1.2.3-1.x86_64.rpm")); err != nil || !bytes.Contains(rpm, []byte("\x00localhost\x00")) {
		t.Errorf("the .rpm has the name of the build machine: %v", err)
	}
	if err := emptyDir(now); err != nil {
		t.Errorf("a directory of an earlier run: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(another, ".made-by-release"), nil, 0o644))
	if err := emptyDir(root(t)); err == nil {
		t.Error("a directory with other files was emptied")
	}
}

// imagined returns a release with a few words in place of the programs, for tests that
// do not run them.
func imagined(t *testing.T) (r release, builds []build) {
	t.Helper()
	r = release{root: root(t), version: "v1.2.3", number: "1.2.3", revision: "0123456789ab", time: time.Unix(1700000000, 0).UTC()}
	for _, target := range targets {
		b := build{target: target, bom: []byte("{}"), notices: []byte("theirs")}
		for _, p := range target.programs {
			b.programs = append(b.programs, file{name: p, mode: 0o755, body: []byte("a program: " + p)})
		}
		builds = append(builds, b)
	}
	return r, builds
}

// TestSameBuilds: two clones of the sources in different directories give the same
// release.
func TestSameBuilds(t *testing.T) {
	if os.Getenv("STOUT_TEST") != "nightly" {
		t.Skip("builds everything twice: make nightly")
	}
	var outs []string
	for _, place := range []string{"here", "in/another/place"} {
		clone, out := filepath.Join(t.TempDir(), place), t.TempDir()
		r := release{root: root(t)}
		if _, err := r.git("clone", "-q", "--no-hardlinks", root(t), clone); err != nil {
			t.Skipf("cannot clone the sources: %v", err)
		}
		must(t, run([]string{"--root", clone, "--out", out, "--targets", "linux/amd64,windows/amd64"}, t.Output()))
		outs = append(outs, out)
	}
	same(t, outs[0], outs[1])
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	must(t, err)
	return dir
}

// same checks that two directories have the same files.
func same(t *testing.T, a, b string) {
	t.Helper()
	n := 0
	err := fs.WalkDir(os.DirFS(a), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		one, err := os.ReadFile(filepath.Join(a, name))
		if err != nil {
			return err
		}
		other, err := os.ReadFile(filepath.Join(b, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(one, other) {
			t.Errorf("%s differs", name)
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files: %v", n, err)
	}
}

// TestBillOfMaterials: the bill lists the modules that the programs are built from, each
// with a licence.
func TestBillOfMaterials(t *testing.T) {
	b := hostBuild(t)
	var doc cyclonedx.BOM
	must(t, cyclonedx.NewBOMDecoder(bytes.NewReader(b.build.bom), cyclonedx.BOMFileFormatJSON).Decode(&doc))
	found := map[string]bool{}
	for _, c := range *doc.Components {
		found[c.Name] = true
		if c.Version == "" || c.Name != "std" && (c.Hashes == nil || !strings.Contains(string(b.build.notices), c.Name+" "+c.Version)) {
			t.Errorf("%s %s lacks its version, its checksum or its licence", c.Name, c.Version)
		}
	}
	for _, want := range []string{"std", "github.com/hashicorp/raft", "go.etcd.io/bbolt"} {
		if !found[want] {
			t.Errorf("the bill lacks %s", want)
		}
	}
	for _, not := range []string{"github.com/goreleaser/nfpm/v2", "honnef.co/go/tools", "pgregory.net/rapid"} {
		if found[not] {
			t.Errorf("the bill has %s, which is in no program", not)
		}
	}
	if doc.Metadata.Timestamp != b.release.time.Format(time.RFC3339) {
		t.Errorf("the bill has the time %s", doc.Metadata.Timestamp)
	}
}

// TestClientsHaveTheLicence: npm and setuptools pack the file LICENSE of a client's own
// directory.
func TestClientsHaveTheLicence(t *testing.T) {
	want, err := os.ReadFile("../../LICENSE")
	must(t, err)
	for _, client := range []string{"python", "typescript"} {
		if got, err := os.ReadFile(filepath.Join("../../client", client, "LICENSE")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the client for %s lacks the licence, or has another: %v", client, err)
		}
	}
}

func TestNumber(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                    "1.2.3",
		"1.2.3":                     "1.2.3",
		"v1.2.3-rc.1":               "1.2.3-rc.1",
		"v1.2.3-4-g0123456":         "1.2.3+4.g0123456",
		"v1.2.3-rc.1-4-g0123456":    "1.2.3-rc.1+4.g0123456",
		"v1.2.3-dirty":              "1.2.3+dirty",
		"v1.2.3-4-g0123456-dirty":   "1.2.3+4.g0123456.dirty",
		"0123456":                   "0.0.0+20261128230000.g0123456",
		"0123456-dirty":             "0.0.0+20261128230000.g0123456.dirty",
		"v1.2":                      "",
		"":                          "",
		"v1.2.3; rm -rf /":          "",
		"v1.2.3 -X main.evil=1":     "",
		"../../etc":                 "",
		"v1.2.3-4-g0123456-rebuilt": "",
	} {
		got, err := number(version, time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC))
		if got != want || (err != nil) != (want == "") {
			t.Errorf("number(%q) = %q, %v; want %q", version, got, err, want)
		}
	}
}

func TestSourceDateEpoch(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	r, err := newRelease("../..", "v1.2.3")
	if err != nil || !r.time.Equal(time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", r.time, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := newRelease("../..", "v1.2.3"); err == nil || !strings.Contains(err.Error(), `"yesterday"`) {
		t.Errorf("err = %v", err)
	}
}
