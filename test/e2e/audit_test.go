package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestAuditLog: denials and changes are in the audit file of the replica that
// checked them, once. After logrotate has moved the file, SIGHUP begins a new
// one. No file has a secret.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := "stout_" + strings.Repeat("r00t", 8)
	token := filepath.Join(dir, "root.token")
	must(t, os.WriteFile(token, []byte(root), 0o600))
	c := cell.New(t, cell.Options{RootToken: token, Audit: true, Args: still})
	master := c.Ready(t)
	follower := c.Others(master)[0]
	made, err := through[lockapi.Token](t.Context(), bearing(root), follower, http.MethodPost, lockapi.RouteTokens, lockapi.TokenRequest{Principal: "user:ada"})
	must(t, err)
	ada := bearing(made.Secret)
	// count returns the number of lines with a text in all audit logs.
	count := func(text string) (n int) {
		for _, r := range c.Replicas() {
			for _, file := range []string{r.AuditLog(), r.AuditLog() + ".1"} {
				lines, err := os.ReadFile(file)
				if !errors.Is(err, os.ErrNotExist) {
					must(t, err)
				}
				n += strings.Count(string(lines), text)
			}
		}
		return n
	}
	until := func(text string, want int) {
		t.Helper()
		must(t, cell.Wait(cell.Bounded(t), text, func(context.Context) error {
			if n := count(text); n != want {
				return fmt.Errorf("%d lines have it, want %d", n, want)
			}
			return nil
		}))
	}
	deny := func(path string) {
		t.Helper()
		if _, err := through[lockapi.FileStat](t.Context(), ada, follower, http.MethodPut, lockapi.RouteFiles+path, "c0ntent"); !errors.Is(err, lockapi.CodePermissionDenied) {
			t.Errorf("%s: %v", path, err)
		}
	}
	until(`"event":"master_elected"`, 1)
	until(`"event":"access_founded"`, 1)
	until(`"principal":"user:root","how":"token"`, 1) // ada's token
	deny("/one")
	until(`"path":"/one","status":403,"code":"permission_denied"`, 1)

	must(t, os.Rename(master.AuditLog(), master.AuditLog()+".1"))
	deny("/two")
	until(`"path":"/two"`, 1)
	if _, err := os.Stat(master.AuditLog()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there before SIGHUP: %v", err)
	}
	must(t, syscall.Kill(master.PID(), syscall.SIGHUP))
	must(t, cell.Wait(cell.Bounded(t), "a new file", func(context.Context) error {
		_, err := os.Stat(master.AuditLog())
		return err
	}))
	deny("/three")
	until(`"path":"/three"`, 1)
	lines, err := os.ReadFile(master.AuditLog())
	must(t, err)
	if !strings.Contains(string(lines), `"path":"/three"`) || strings.Contains(string(lines), "/two") {
		t.Errorf("%s", lines)
	}
	must(t, c.Stop(cell.Bounded(t)))
	for _, secret := range []string{root, root[6:], made.Secret, made.Secret[6:], "c0ntent", "Bearer"} {
		if n := count(secret); n > 0 {
			t.Errorf("%d lines have %q", n, secret)
		}
	}
	if n := count(`"event":"master_ended"`); n == 0 {
		t.Error("the end of the office has no line")
	}
}

// TestAuditDiskFull: with audit-required no change happens without its line;
// otherwise a full disk has no effect on callers. In both cases the master
// stays.
func TestAuditDiskFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	for _, required := range []bool{true, false} {
		t.Run(fmt.Sprintf("required %t", required), func(t *testing.T) {
			t.Parallel()
			auditDiskFull(t, required)
		})
	}
}

func auditDiskFull(t *testing.T, required bool) {
	c := cell.New(t, cell.Options{Args: append([]string{"--audit-log=/dev/full", "--audit-changes", fmt.Sprintf("--audit-required=%t", required)}, still...)})
	master := c.Ready(t)
	follower := c.Others(master)[0]
	epoch := view(t, master).Epoch
	for _, r := range []*cell.Replica{master, follower} {
		_, err := r.Call(cell.Bounded(t), http.MethodPut, lockapi.RouteFiles+"/a", "x", nil)
		switch {
		case required && (!errors.Is(err, lockapi.CodeNoMaster) || !strings.Contains(err.Error(), "audit")):
			t.Errorf("a change at %s: %v", r.ID, err)
		case !required && err != nil:
			t.Errorf("a change at %s: %v", r.ID, err)
		}
		_, err = through[lockapi.File](t.Context(), r.Via(), r, http.MethodGet, lockapi.RouteFiles+"/a?as=json", nil)
		if required != errors.Is(err, lockapi.CodeNotFound) {
			t.Errorf("a read at %s: %v", r.ID, err)
		}
	}
	if now := view(t, master).Epoch; now != epoch {
		t.Errorf("epoch %d, then %d", epoch, now)
	}
	page := metrics(t.Context(), t, master.Via(), master)
	if !strings.Contains(page, "stout_audit_failing 1\n") || strings.Contains(page, `stout_audit_lines_total{result="lost"} 0`) {
		t.Error("the metrics do not show it")
	}
	if n := strings.Count(logOf(t, master), "the audit log cannot be written"); n != 1 {
		t.Errorf("the log reports %d times that the audit log cannot be written", n)
	}
}

// TestAuditRefusals: an unusable audit log ends the start, with the reason.
func TestAuditRefusals(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none", "audit.log")
	c := cell.NewPrepared(t, cell.Options{Size: 3, Args: []string{"--audit-log=" + missing}})
	r := c.Replicas()[0]
	must(t, r.Start())
	must(t, cell.Wait(cell.Bounded(t), "it has ended", func(context.Context) error {
		if r.Running() {
			return errors.New("it runs")
		}
		return nil
	}))
	code, _ := r.ExitState()
	if log := logOf(t, r); code != 1 || !strings.Contains(log, "audit-log") || !strings.Contains(log, "there is no directory") || !strings.Contains(log, missing) {
		t.Errorf("exit code %d, and:\n%s", code, log)
	}
}

func logOf(t *testing.T, r *cell.Replica) string {
	t.Helper()
	text, err := os.ReadFile(r.LogFile)
	must(t, err)
	return string(text)
}
