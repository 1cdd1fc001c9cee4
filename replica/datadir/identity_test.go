package datadir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/disk"
)

func TestIdentityStaysTheSame(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for i := range 3 {
		if _, err := identify(dir, "local", "r1"); err != nil {
			t.Fatalf("opened %d times: %v", i, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestFlippedBitsInTheIdentity: no flipped bit makes it another identity.
func TestFlippedBitsInTheIdentity(t *testing.T) {
	dir := t.TempDir()
	who, err := identify(dir, "local", "r1")
	must(t, err)
	who.CellID, who.Founding = "5cfd2797946bf3c3", admission.Founding{{ID: "r1", Directory: who.Directory, RaftAddr: "r1:7201"}}
	must(t, writeIdentity(dir, who))
	name := filepath.Join(dir, identityFile)
	raw, err := os.ReadFile(name)
	must(t, err)
	for at := range raw {
		for bit := range 8 {
			flipped := bytes.Clone(raw)
			flipped[at] ^= 1 << bit
			must(t, os.WriteFile(name, flipped, 0o600))
			if have, err := identify(dir, "local", "r1"); err == nil && !reflect.DeepEqual(have, who) {
				t.Fatalf("bit %d of byte %d flipped: it is %+v, and was %+v", bit, at, have, who)
			}
		}
	}
}

// TestCrashWhileIdentifying: a crash leaves a directory that can be opened.
func TestCrashWhileIdentifying(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, identityFile+".new"), []byte(`{"for`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identify(dir, "local", "r1"); err != nil {
		t.Fatal(err)
	}
}

func TestDataDirRefusals(t *testing.T) {
	for _, tc := range []struct {
		name, file, content string
		want                []string // in the message
	}{
		{"another cell", identityFile, `{"format":4,"cell":"other","id":"r1"}`, []string{`"other"`, `"local"`}},
		{"another id", identityFile, `{"format":4,"cell":"local","id":"r2"}`, []string{`"r2"`, `"r1"`}},
		{"a newer format", identityFile, `{"format":5,"cell":"local","id":"r1"}`, []string{"format 5", "newer"}},
		{"damaged", identityFile, `{"format":4,"cell":"lo`, []string{identityFile, "damaged"}},
		{"a newer format with fields of its own", identityFile, `{"format":5,"cell":"local","id":"r1","shard":{"of":7}}`, []string{"format 5", "newer"}},
		{"an earlier format", identityFile, `{"format":3,"cell":"local","id":"r1"}`, []string{"format 3", "format 4"}},
		{"an unknown format", identityFile, `{"format":0,"cell":"local","id":"r1"}`, []string{"format 0"}},
		{"an unknown field", identityFile, `{"format":4,"cell":"local","id":"r1","foundee":true}`, []string{identityFile, "damaged", "foundee"}},
		{"without its sum", identityFile, `{"format":4,"cell":"local","id":"r1","directory":"0123456789abcdef"}`, []string{identityFile, "damaged", "checksum"}},
		{"another's sum", identityFile, `{"format":4,"cell":"local","id":"r1","directory":"0123456789abcdee","checksum":"2fa6b67e"}`, []string{identityFile, "damaged", "checksum"}},
		{"empty", identityFile, ``, []string{identityFile, "damaged"}},
		{"foreign files", "holiday.jpg", `x`, []string{"holiday.jpg", "empty directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, tc.file), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := identify(dir, "local", "r1")
			if err == nil {
				t.Fatal("accepted")
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

// TestFirstStartIsAlone: two processes start in a new directory at the same
// time. The one that does not get it leaves it unchanged.
func TestFirstStartIsAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	must(t, disk.MakeDir(dir))
	first, err := lockDir(dir)
	must(t, err)
	if _, err := Lock(dir, "test", "r1"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the second start: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, identityFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has given the directory an id: %v", err)
	}
	must(t, first.Close())
	d, err := Lock(dir, "test", "r1")
	must(t, err)
	must(t, d.Close())
}
