package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/membership"
)

// backupOfDev returns a backup of a cell of --dev.
func backupOfDev(t *testing.T) []byte {
	t.Helper()
	api := "127.0.0.1:" + freePort(t)
	log, stop := serving(t, devFlags(api)...)
	defer func() {
		if got := stop(); got != exitOK {
			t.Errorf("exit code %d: %s", got, log)
		}
	}()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + api + lockapi.RouteBackup)
		if err != nil {
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK {
			return raw
		}
	}
	t.Fatalf("no backup: %s", log)
	return nil
}

// withHeader returns the backup with a changed header, and a valid checksum.
func withHeader(t *testing.T, raw []byte, change func(*lockapi.BackupHeader)) []byte {
	t.Helper()
	r, err := backup.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	change(&r.Header)
	if err := backup.Write(&out, r.Header, func(w io.Writer) error { _, err := io.Copy(w, r); return err }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// spoiled returns the backup with a state that is not CBOR from its first record on.
func spoiled(t *testing.T, raw []byte) []byte {
	t.Helper()
	const magic = "stout-state"
	at := bytes.Index(raw, []byte(magic))
	if at < 0 {
		t.Fatal("no state in the backup")
	}
	out := bytes.Clone(raw)
	copy(out[at+len(magic)+1:], "\xff\xff\xff\xff")
	return out
}

// summed returns the backup with a valid SHA-256.
func summed(raw []byte) []byte {
	sum := sha256.Sum256(raw[:len(raw)-sha256.Size])
	return append(bytes.Clone(raw[:len(raw)-sha256.Size]), sum[:]...)
}

// TestRestoreBesideARunningReplica: one that is silent hides no other one, and a
// restore that was stopped has not looked at all.
func TestRestoreBesideARunningReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []membership.Member{{ID: "r1", RaftAddr: "off"}, {ID: "r2", RaftAddr: "refuses"}, {ID: "r3", RaftAddr: "runs"}}
		dial := func(ctx context.Context, _, address string) (net.Conn, error) {
			switch {
			case address == "off":
				<-ctx.Done()
			case address == "runs" && ctx.Err() == nil:
				conn, _ := net.Pipe()
				return conn, nil
			}
			return nil, errors.New("no connection")
		}
		if err := noneAnswers(t.Context(), all, dial); err == nil || !strings.Contains(err.Error(), "replica r3: its address runs") {
			t.Errorf("beside r3: %v", err)
		}
		if err := noneAnswers(t.Context(), all[:2], dial); err != nil {
			t.Errorf("beside none: %v", err)
		}
		stopped, stop := context.WithCancelCause(t.Context())
		stop(errors.New("interrupted"))
		if err := noneAnswers(stopped, all, dial); err == nil || !strings.Contains(err.Error(), "interrupted; nothing was written") {
			t.Errorf("stopped: %v", err)
		}
	})
}

// TestRestore: a refused restore writes nothing, and each restore begins with higher
// tokens.
func TestRestore(t *testing.T) {
	raw := backupOfDev(t)
	cut, flipped := raw[:len(raw)-40], bytes.Clone(raw)
	flipped[len(flipped)/2] ^= 1
	later := withHeader(t, raw, func(h *lockapi.BackupHeader) { h.Time = time.Now().Add(time.Hour) })
	other := withHeader(t, raw, func(h *lockapi.BackupHeader) { h.Token++ })
	replica := []string{"--id", "r1", "--replica", "r1=127.0.0.1:" + freePort(t) + ",http://127.0.0.1:7101"}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for i, c := range []struct {
		raw  []byte
		args []string
		code int
		want string
	}{
		{raw, []string{"--above", "9007199254740992"}, exitStart, "tokens are below 2^53"},
		{raw, []string{"--above", "9007199254740991"}, exitStart, "tokens are below 2^53"},
		{raw, []string{"--above", "-1"}, exitUsage, "above"},
		{raw, []string{"--cell", "other"}, exitConfig, "this is a backup of cell"},
		{raw, []string{"--dev"}, exitConfig, "dev"},
		{raw, []string{"more"}, exitUsage, "more"},
		{raw, []string{"--id", "r2"}, exitConfig, "r2"},
		{cut, nil, exitStart, "damaged or cut off"},
		{flipped, nil, exitStart, "damaged or cut off"},
		{spoiled(t, raw), nil, exitStart, "damaged or cut off"},
		{summed(spoiled(t, raw)), nil, exitStart, "its SHA-256 is right, but this release cannot use its state (read snapshot: cbor"},
		{other, nil, exitStart, "its header does not match its state"},
		{later, nil, exitStart, "this machine's clock shows"},
		{nil, nil, exitStart, "damaged or cut off"},
	} {
		file, dir := filepath.Join(t.TempDir(), "cell.backup"), filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(file, c.raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		args := append(append([]string{"restore", "--from", file, "--data-dir", dir}, replica...), c.args...)
		if got := run(t.Context(), args, &out, &out); got != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%d: exit code %d, want %d: %s", i, got, c.code, out.String())
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%d: the directory was made: %v", i, err)
		}
	}
	file := filepath.Join(t.TempDir(), "cell.backup")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	lives := []string{"restore", "--from", file, "--data-dir", filepath.Join(t.TempDir(), "data"), "--id", "r1", "--replica", "r1=" + taken.Addr().String() + ",http://127.0.0.1:7101"}
	if got := run(t.Context(), lives, &out, &out); got != exitStart || !strings.Contains(out.String(), "accepts connections") {
		t.Errorf("beside a replica that runs: %d: %s", got, out.String())
	}
	out.Reset()
	if got := run(t.Context(), append([]string{"restore", "--data-dir", "x"}, replica...), &out, &out); got != exitUsage && got != exitStart {
		t.Errorf("without --from: %d: %s", got, out.String())
	}

	top := t.TempDir()
	restore := func(dir string, more ...string) (code int, above uint64, said string) {
		var out bytes.Buffer
		code = run(t.Context(), append(append([]string{"restore", "--from", file, "--data-dir", filepath.Join(top, dir)}, replica...), more...), &out, &out)
		if m := regexp.MustCompile(`above (\d+)`).FindStringSubmatch(out.String()); m != nil {
			above, _ = strconv.ParseUint(m[1], 10, 64)
		}
		return code, above, out.String()
	}
	var last uint64
	for i := range 3 {
		code, above, said := restore(fmt.Sprint(i))
		if code != exitOK || above <= last {
			t.Errorf("restored %d times: exit code %d, tokens above %d, and before above %d: %s", i+1, code, above, last, said)
		}
		last = above
	}
	if code, _, said := restore("0"); code != exitStart || !strings.Contains(said, "is not empty") {
		t.Errorf("in a directory that is not empty: %d: %s", code, said)
	}
	if code, above, said := restore("a", "--above", "77"); code != exitOK || above != 78 {
		t.Errorf("--above 77: %d, %d: %s", code, above, said)
	}
	if err := os.WriteFile(file, later, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, above, said := restore("b", "--above", "9007199254740000"); code != exitOK || above != 9007199254740001 {
		t.Errorf("--above and a clock that is behind: %d, %d: %s", code, above, said)
	}
	// Tokens that the next cell gives could repeat if it began where this one did.
	again := append([]string{"recover", "--data-dir", filepath.Join(top, "b"), "--into", filepath.Join(top, "c"), "--yes", "--cell", "dev"}, replica...)
	if code, said := invokeOn(t, "", again...); code != exitStart || !strings.Contains(said, "give by --above the highest token") {
		t.Errorf("numbers ahead of the clock: %d: %s", code, said)
	}
	if code, said := invokeOn(t, "", append(again, "--above", "9007199254740900")...); code != exitOK || !strings.Contains(said, "above 9007199254740901") {
		t.Errorf("numbers ahead of the clock, and --above: %d: %s", code, said)
	}
}
