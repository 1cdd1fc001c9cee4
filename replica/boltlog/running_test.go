package boltlog

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/disk"
)

// TestPanicsOfTheFileAreErrors: so are faults in mapped memory.
func TestPanicsOfTheFileAreErrors(t *testing.T) {
	if err := recovering(func() error { panic("page 7 is not a page") }); err == nil || !strings.Contains(err.Error(), "page 7") {
		t.Errorf("error %v", err)
	}
	if err := recovering(func() error { return errDisk }); !errors.Is(err, errDisk) {
		t.Errorf("error %v", err)
	}
}

// TestDamageUnderneathARunningLog: the damage is found when the entry is read.
func TestDamageUnderneathARunningLog(t *testing.T) {
	f := plain(t)
	secret := []byte("a string that is easy to find")
	must(t, f.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Data: secret}, {Index: 2, Term: 1, Data: []byte("other")}}))
	flip(t, f.name, secret)
	var l raft.Log
	if err := f.GetLog(1, &l); !errors.Is(err, disk.ErrDamaged) {
		t.Errorf("read %q, %v", l.Data, err)
	}
	must(t, f.GetLog(2, &l))
}

// TestFileCutUnderneathARunningLog: the memory to which the file was mapped is
// gone. Reading it is an error and does not end the process by a signal.
func TestFileCutUnderneathARunningLog(t *testing.T) {
	f := plain(t)
	for i := range uint64(100) {
		must(t, f.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: make([]byte, 3000)}))
	}
	must(t, os.Truncate(f.name, int64(2*os.Getpagesize())))
	var l raft.Log
	if err := f.GetLog(50, &l); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("read entry %d, %v", l.Index, err)
	}
}

// flip flips one bit wherever some bytes occur in a file.
func flip(t *testing.T, name string, what []byte) {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	defer file.Close()
	n := 0
	for at := bytes.Index(raw, what); at >= 0; at = bytes.Index(raw, what) {
		raw[at] ^= 1
		_, err := file.WriteAt(raw[at:at+1], int64(at))
		must(t, err)
		n++
	}
	if n == 0 {
		t.Fatalf("%q is not in %s", what, name)
	}
}
