package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	rpmutils "github.com/sassoftware/go-rpmutils"
)

// TestDebian installs, upgrades, removes and purges the package in a root directory of
// its own. The data and the secrets of a cell remain.
func TestDebian(t *testing.T) {
	for _, tool := range []string{"dpkg", "dpkg-deb", "systemd-sysusers", "systemctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s on this machine", tool)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("dpkg needs root to install files of root")
	}
	b := hostBuild(t)
	deb := b.pack(t, "deb")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		must(t, os.MkdirAll(in(name), 0o755))
	}
	for _, name := range []string{"var/lib/dpkg/status", "var/lib/dpkg/available"} {
		must(t, os.WriteFile(in(name), nil, 0o644))
	}
	dpkg := func(args ...string) string {
		t.Helper()
		// The root has no shell, and no systemd.
		cmd := exec.Command("dpkg", append([]string{"--root=" + dir, "--log=" + in("log"), "--force-script-chrootless", "--force-depends"}, args...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH=/usr/local/sbin:/usr/sbin:/sbin:"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg %q: %v\n%s", args, err, out)
		}
		return string(out)
	}

	if said := dpkg("--install", deb); !strings.Contains(said, "systemctl enable --now --no-block stoutd") {
		t.Errorf("the installation does not print the next steps:\n%s", said)
	}
	for name, mode := range map[string]os.FileMode{
		"usr/bin/stoutd": 0o755, "usr/bin/stout": 0o755, "etc/stout/stoutd.yaml": 0o644,
		"usr/lib/systemd/system/stoutd.service": 0o644, "usr/share/doc/stout/copyright": 0o644,
		"etc/needrestart/conf.d/stoutd.conf": 0o644, "usr/share/doc/stout/LICENSES-OF-OTHERS.txt": 0o644, "usr/share/doc/stout/sbom.cdx.json": 0o644,
	} {
		if info, err := os.Stat(in(name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if users, err := os.ReadFile(in("etc/passwd")); err != nil || !strings.Contains(string(users), "stoutd:") || !strings.Contains(string(users), "nologin") {
		t.Errorf("users: %s, %v", users, err)
	}
	if out, err := exec.Command(in("usr/bin/stoutd"), "version").CombinedOutput(); err != nil || !strings.Contains(string(out), "stoutd v0.0.1-test ("+b.release.revision+")") {
		t.Errorf("stoutd version: %s, %v", out, err)
	}
	// needrestart evaluates its files in Perl.
	if perl, err := exec.LookPath("perl"); err == nil {
		const read = `our %nrconf; eval do { local $/; <> }; die $@ if $@;
			while (my ($re, $on) = each %{$nrconf{override_rc}}) { print "$_ $on\n" for grep /$re/, qw(stoutd.service stoutd.socket astoutd.service) }`
		if out, err := exec.Command(perl, "-we", read, in("etc/needrestart/conf.d/stoutd.conf")).CombinedOutput(); err != nil || string(out) != "stoutd.service 0\n" {
			t.Errorf("needrestart restarts the replica: %s, %v", out, err)
		}
	}
	// The installed settings need TLS, access and an audit log; without them stoutd does
	// not serve.
	if out, err := exec.Command(in("usr/bin/stoutd"), "--config", in("etc/stout/stoutd.yaml"), "config").CombinedOutput(); err != nil {
		t.Errorf("its settings are refused: %v\n%s", err, out)
	}
	if out, err := exec.Command(in("usr/bin/stoutd"), "--config", in("etc/stout/stoutd.yaml")).CombinedOutput(); err == nil {
		t.Errorf("it serves without certificates:\n%s", out)
	}

	write := func(name, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(in(name)), 0o755))
		must(t, os.WriteFile(in(name), []byte(text), 0o600))
	}
	left := func(name, text string) {
		t.Helper()
		if body, err := os.ReadFile(in(name)); string(body) != text {
			t.Errorf("%s: %q, %v", name, body, err)
		}
	}
	write("etc/stout/stoutd.yaml", "cell: mine\n")
	write("etc/stout/r1-key.pem", "a key")
	write("var/lib/stoutd/replica.json", "{}")
	const enabled = "etc/systemd/system/multi-user.target.wants/stoutd.service"
	must(t, os.MkdirAll(filepath.Dir(in(enabled)), 0o755))
	must(t, os.Symlink("/usr/lib/systemd/system/stoutd.service", in(enabled)))
	if said := dpkg("--install", deb); !strings.Contains(said, "restart the replicas one by one") || strings.Contains(said, "systemctl enable") {
		t.Errorf("an upgrade does not print the next steps:\n%s", said)
	}
	left("etc/stout/stoutd.yaml", "cell: mine\n")
	dpkg("--remove", "stout")
	left("etc/stout/stoutd.yaml", "cell: mine\n")
	if _, err := os.Stat(in("usr/bin/stoutd")); err == nil {
		t.Error("the program remains")
	}
	// On a running system the removal disables the service.
	must(t, os.Remove(in(enabled)))
	if said := dpkg("--install", deb); !strings.Contains(said, "systemctl enable --now --no-block stoutd") || strings.Contains(said, "one by one") {
		t.Errorf("an installation after a removal does not print the next steps:\n%s", said)
	}
	left("etc/stout/stoutd.yaml", "cell: mine\n")
	if said := dpkg("--purge", "stout"); !strings.Contains(said, "/var/lib/stoutd is kept") {
		t.Errorf("the removal does not list the remaining files:\n%s", said)
	}
	if _, err := os.Stat(in("etc/stout/stoutd.yaml")); err == nil {
		t.Error("the settings remain")
	}
	left("etc/stout/r1-key.pem", "a key")
	left("var/lib/stoutd/replica.json", "{}")
	if _, err := os.Stat(in("usr/share/doc/stout")); err == nil {
		t.Error("the documents remain")
	}
}

// pack writes a package of this machine's build.
func (b *built) pack(t *testing.T, format string) string {
	t.Helper()
	if b.build.target.os != "linux" {
		t.Skipf("packages are for Linux, and this is %s", b.build.target.os)
	}
	out := t.TempDir()
	must(t, b.release.writePackage(out, format, t.TempDir(), b.build))
	names, err := filepath.Glob(filepath.Join(out, "*."+format))
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	return names[0]
}

// TestRPM reads the package with another library. It does not install the package.
func TestRPM(t *testing.T) {
	r, builds := imagined(t)
	out := t.TempDir()
	must(t, r.writePackage(out, "rpm", t.TempDir(), builds[0]))
	f, err := os.Open(filepath.Join(out, "stout-1.2.3-1.x86_64.rpm"))
	must(t, err)
	defer f.Close()
	header, err := rpmutils.ReadHeader(f)
	must(t, err)
	files, err := header.GetFiles()
	must(t, err)
	modes := map[string]os.FileMode{}
	for _, f := range files {
		modes[f.Name()] = os.FileMode(f.Mode()).Perm()
		if f.UserName() != "root" || f.GroupName() != "root" || int64(f.Mtime()) != r.time.Unix() {
			t.Errorf("%s is %s:%s's, of %d", f.Name(), f.UserName(), f.GroupName(), f.Mtime())
		}
		const config, noreplace = 1, 1 << 4
		if f.Name() == "/etc/stout/stoutd.yaml" && f.Flags() != config|noreplace {
			t.Errorf("an upgrade replaces %s: flags %#x", f.Name(), f.Flags())
		}
	}
	if modes["/etc/needrestart/conf.d/stoutd.conf"] != 0 {
		t.Error("it has a file for a tool of Debian")
	}
	for name, mode := range map[string]os.FileMode{"/usr/bin/stoutd": 0o755, "/usr/bin/stout": 0o755, "/etc/stout/stoutd.yaml": 0o644, "/usr/lib/systemd/system/stoutd.service": 0o644} {
		if modes[name] != mode {
			t.Errorf("%s has mode %v", name, modes[name])
		}
	}
	for tag, want := range map[int]string{rpmutils.POSTIN: "systemd-sysusers", rpmutils.PREUN: "systemctl disable --now", rpmutils.POSTUN: "daemon-reload"} {
		if script, err := header.GetString(tag); err != nil || !strings.Contains(script, want) {
			t.Errorf("script %d has no %q: %q, %v", tag, want, script, err)
		}
	}
}

// TestStopsAreNotCutOff: systemd waits longer than stoutd takes to stop, which is
// shutdown-timeout, two seconds, and one for the log.
func TestStopsAreNotCutOff(t *testing.T) {
	number := func(name, pattern string) int {
		t.Helper()
		text, err := os.ReadFile("../../" + name)
		must(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s", name, pattern)
		}
		n, err := strconv.Atoi(string(found[1]))
		must(t, err)
		return n
	}
	for name, times := range map[string][2]int{
		"the default":     {number("configs/systemd/stoutd.service", `(?m)^TimeoutStopSec=(\d+)$`), number("docs/settings.md", "`shutdown-timeout` \\| (\\d+)s ")},
		"slow-disks.yaml": {number("configs/slow-disks.yaml", `# .*TimeoutStopSec=(\d+) `), number("configs/slow-disks.yaml", `(?m)^shutdown-timeout: (\d+)s$`)},
	} {
		if times[0] < times[1]+12 {
			t.Errorf("%s: systemd kills stoutd after %d s, and shutdown-timeout is %d s", name, times[0], times[1])
		}
	}
}

// TestUnitIsHardened checks the unit with systemd's own analysis.
func TestUnitIsHardened(t *testing.T) {
	unit, err := os.ReadFile("../../configs/systemd/stoutd.service")
	must(t, err)
	for _, want := range []string{"Type=notify", "WatchdogSec=", "User=stoutd", "StateDirectory=stoutd", "StateDirectoryMode=0700", "LogsDirectory=stoutd",
		"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n", "RestartPreventExitStatus=64 74 78", "ExecStart=/usr/bin/stoutd --config /etc/stout/stoutd.yaml"} {
		if !strings.Contains(string(unit), "\n"+want) {
			t.Errorf("no line %q", want)
		}
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze on this machine")
	}
	out, err := exec.Command(tool, "security", "--offline=true", "--threshold=20", "../../configs/systemd/stoutd.service").CombinedOutput()
	if strings.Contains(string(out), "unrecognized option") {
		t.Skip("this systemd-analyze cannot check files")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
