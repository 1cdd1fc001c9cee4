//go:build unix

package consul

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
)

// runTests runs compiled tests of a module against a server.
func runTests(t *testing.T, program, addr string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, append(args, "-test.v", "-test.timeout=10m")...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+addr)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: ") {
		t.Fatalf("%s: %v\n%s", cmd, err, out[max(0, len(out)-20_000):])
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestVault runs Vault's own tests of its storage in Consul: entries, lists,
// transactions of 128 operations, and the lock of two servers.
//
// Two of the tests are left out because they are of other releases of Consul:
// TooLarge expects an error text of before 1.5, and ExpandedCapabilities runs a
// container of 1.13 as well as the tested server.
func TestVault(t *testing.T) {
	testrun.Nightly(t)
	t.Parallel()
	program := vault.open(t).tests(t, "./physical/consul", "-trimpath")
	runTests(t, program, serve(t), "-test.run=^(TestConsulBackend|TestConsulHABackend|TestConsul_TransactionalBackend.*)$|^TestConsul_ExpandedCapabilitiesAvailable$/^1.14")
}

// TestValkeyrie runs the suite that the library valkeyrie has for each store.
// Traefik uses this library.
func TestValkeyrie(t *testing.T) {
	testrun.Nightly(t)
	t.Parallel()
	s := valkeyrie.open(t)
	s.write(t, "consul_test.go", testOf(t, "valkeyrie"))
	runTests(t, s.tests(t, "."), serve(t))
}

// TestTraefik: Traefik's provider reads routes from the store and sees changes.
func TestTraefik(t *testing.T) {
	testrun.Nightly(t)
	t.Parallel()
	s := traefik.open(t)
	s.write(t, "pkg/provider/kv/consul/consul_test.go", testOf(t, "traefik"))
	runTests(t, s.tests(t, "./pkg/provider/kv/consul", "-trimpath"), serve(t))
}

// testOf returns the source of a test that runs in another module.
func testOf(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	must(t, err)
	return string(content)
}

// TestConsulTemplate: a template follows the keys that it names. Two instances
// share the work by a lock: with -dedup, one reads the keys and the other takes
// what it found.
func TestConsulTemplate(t *testing.T) {
	testrun.Nightly(t)
	t.Parallel()
	program := consulTemplate.open(t).program(t, "consul-template", ".")
	addr := serve(t)
	put(t, addr, "/v1/kv/app/limits/cpu", "2")
	put(t, addr, "/v1/kv/app/limits/disk", "9")
	put(t, addr, "/v1/kv/app/name", "shop")
	template := newFile(t)
	template.write(t, `{{ key "app/name" }}:{{ range ls "app/limits" }} {{ .Key }}={{ .Value }}{{ end }} {{ keyOrDefault "app/mode" "calm" }}`)

	alone, first, second := newFile(t), newFile(t), newFile(t)
	start := func(to file, args ...string) {
		run(t, exec.Command(program, append(args, "-consul-addr="+addr, fmt.Sprintf("-template=%s:%s", template, to))...))
	}
	start(alone)
	start(first, "-dedup")
	start(second, "-dedup")
	for _, step := range []struct{ key, value, want string }{
		{"", "", "shop: cpu=2 disk=9 calm"},
		{"app/limits/cpu", "4", "shop: cpu=4 disk=9 calm"},
		{"app/mode", "hurried", "shop: cpu=4 disk=9 hurried"},
		{"app/limits/memory", "8", "shop: cpu=4 disk=9 memory=8 hurried"},
	} {
		if step.key != "" {
			put(t, addr, "/v1/kv/"+step.key, step.value)
		}
		for _, f := range []file{alone, first, second} {
			f.becomes(t, step.want)
		}
	}
}
