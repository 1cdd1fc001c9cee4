package backup

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

var rewrite = flag.Bool("rewrite", false, "record the golden file anew")

var example = lockapi.BackupHeader{
	Format: lockapi.BackupFormat, Cell: "prod", CellID: "5cfd2797946bf3c3", Time: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC),
	Release: "v1.2.3", Replica: "r1", Index: 17, Revision: 9, Token: 4, Contents: lockapi.BackupContents{Sessions: 1, Files: 2, ContentBytes: 3},
}

const snapshot = "the state, whatever it is"

func written(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, example, func(w io.Writer) error { _, err := io.WriteString(w, snapshot); return err }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestReadsWhatWasWritten: a backup can be read back, however its source splits it.
func TestReadsWhatWasWritten(t *testing.T) {
	raw := written(t)
	for name, from := range map[string]io.Reader{
		"at once": bytes.NewReader(raw), "by bytes": iotest.OneByteReader(bytes.NewReader(raw)), "with its end": iotest.DataErrReader(bytes.NewReader(raw)),
	} {
		r, err := NewReader(from)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != snapshot || r.Header != example {
			t.Errorf("%s: %q of %+v, %v", name, got, r.Header, err)
		}
	}
	var copied bytes.Buffer
	if h, err := Copy(&copied, bytes.NewReader(raw)); err != nil || h != example || !bytes.Equal(copied.Bytes(), raw) {
		t.Errorf("copied: %+v, %v", h, err)
	}
}

// TestNothingElseIsWhole: Verify refuses a backup that is cut off, has a flipped bit
// or has bytes after its end.
func TestNothingElseIsWhole(t *testing.T) {
	raw := written(t)
	for n := range raw {
		if _, err := Verify(bytes.NewReader(raw[:n])); err == nil {
			t.Errorf("the first %d of %d bytes are accepted as a whole backup", n, len(raw))
		}
	}
	for at := range raw {
		for bit := range 8 {
			flipped := bytes.Clone(raw)
			flipped[at] ^= 1 << bit
			if _, err := Verify(bytes.NewReader(flipped)); err == nil {
				t.Errorf("bit %d of byte %d flipped: the backup is accepted", bit, at)
			}
		}
	}
	if _, err := Verify(bytes.NewReader(append(bytes.Clone(raw), 0))); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a byte behind it: %v", err)
	}
}

// TestSourcesThatBreak: Verify returns the error of its source.
func TestSourcesThatBreak(t *testing.T) {
	raw, broken := written(t), errors.New("the network is down")
	for n := range raw {
		if _, err := Verify(io.MultiReader(bytes.NewReader(raw[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
			t.Fatalf("broken behind %d bytes: %v", n, err)
		}
	}
}

// TestWritersThatFail: Write returns the errors of the writer and of the state.
func TestWritersThatFail(t *testing.T) {
	full := errors.New("disk full")
	all := func(w io.Writer) error { _, err := io.WriteString(w, snapshot); return err }
	for n := range len(written(t)) {
		if err := Write(&limited{n, full}, example, all); !errors.Is(err, full) {
			t.Errorf("full behind %d bytes: %v", n, err)
		}
	}
	if err := Write(io.Discard, example, func(io.Writer) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}

type limited struct {
	left int
	err  error
}

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > l.left {
		return 0, l.err
	}
	l.left -= len(b)
	return len(b), nil
}

// TestMessages: the errors name the fault.
func TestMessages(t *testing.T) {
	raw := written(t)
	newer := bytes.Clone(raw)
	newer[len(magic)] = 2
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"another file":  {[]byte(strings.Repeat("%PDF-1.7 ", 10)), "not a Stout backup"},
		"a later one":   {newer, "format 2; this release reads format 1"},
		"cut off":       {raw[:len(raw)-1], "damaged or cut off"},
		"an empty file": {nil, "damaged or cut off"},
	} {
		if _, err := Verify(bytes.NewReader(c.raw)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGolden: the format does not change unnoticed.
func TestGolden(t *testing.T) {
	const name = "testdata/golden.hex"
	got := hex.EncodeToString(written(t)) + "\n"
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != got {
		t.Errorf("the bytes are\n%s and were\n%s%v", got, want, err)
	}
}

// FuzzVerify: Copy writes each valid backup unchanged.
func FuzzVerify(f *testing.F) {
	raw := written(f)
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add([]byte(magic + "\x01\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if _, err := Copy(&out, bytes.NewReader(in)); err == nil && !bytes.Equal(out.Bytes(), in) {
			t.Errorf("%d bytes were copied as %d", len(in), out.Len())
		}
	})
}
