package replica

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDataDirIsClaimedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for i := range 3 {
		if _, err := claimDataDir(dir, "local", "r1"); err != nil {
			t.Fatalf("claim %d: %v", i, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestCrashWhileClaiming leaves a directory that can be claimed.
func TestCrashWhileClaiming(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, identityFile+".new"), []byte(`{"for`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := claimDataDir(dir, "local", "r1"); err != nil {
		t.Fatal(err)
	}
}

func TestDataDirRefusals(t *testing.T) {
	for _, tc := range []struct {
		name, file, content string
		want                []string // in the message
	}{
		{"another cell", identityFile, `{"format":3,"cell":"other","id":"r1"}`, []string{`"other"`, `"local"`}},
		{"another id", identityFile, `{"format":3,"cell":"local","id":"r2"}`, []string{`"r2"`, `"r1"`}},
		{"a newer format", identityFile, `{"format":4,"cell":"local","id":"r1"}`, []string{"format 4", "newer"}},
		{"damaged", identityFile, `{"format":3,"cell":"lo`, []string{identityFile, "damaged"}},
		{"an unknown format", identityFile, `{"format":0,"cell":"local","id":"r1"}`, []string{"format 0"}},
		{"an unknown field", identityFile, `{"format":3,"cell":"local","id":"r1","foundee":true}`, []string{identityFile, "damaged", "foundee"}},
		{"empty", identityFile, ``, []string{identityFile, "damaged"}},
		{"foreign files", "holiday.jpg", `x`, []string{"holiday.jpg", "empty directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, tc.file), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := claimDataDir(dir, "local", "r1")
			if err == nil {
				t.Fatal("claimed")
			}
			for _, w := range append(tc.want, dir) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if raw, err := os.ReadFile(filepath.Join(dir, tc.file)); err != nil || string(raw) != tc.content {
				t.Errorf("the directory was changed: %q, %v", raw, err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("the directory was changed: %v", entries)
			}
		})
	}
}

func TestDataDirInUse(t *testing.T) {
	dir := t.TempDir()
	first, err := openLog(dir, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(dir, true, false); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := openLog(dir, true, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCrashBetweenTermAndConfiguration: the library founds in two writes. Where only
// the first was made nothing was promised, and the cell is founded all the same.
func TestCrashBetweenTermAndConfiguration(t *testing.T) {
	for _, ahead := range []bool{true, false} {
		o := options(t, 1)[0]
		o.WAL, o.HeartbeatTimeout, o.ElectionTimeout = ahead, 20*time.Millisecond, 20*time.Millisecond
		c, err := Prepare(o)
		must(t, err)
		must(t, c.Wait(t.Context()))
		must(t, c.Close())
		f, err := openLog(o.DataDir, false, ahead)
		must(t, err)
		must(t, f.SetUint64([]byte("CurrentTerm"), 1))
		must(t, f.Close())
		lead(t, start(t, o))
	}
}
