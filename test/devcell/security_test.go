package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

// TestSecurityIsAsShown: the set-up of docs/security.md, typed as shown, makes
// a cell where a service gets its lock and a caller without a token gets no
// access. Addresses of this machine replace the hosts.
func TestSecurityIsAsShown(t *testing.T) {
	testrun.E2E(t)
	for _, needed := range []string{"curl", "openssl"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("there is no %s on this machine", needed)
		}
	}
	for i := range 3 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:0", i+1))
		if err != nil {
			t.Skip(err)
		}
		_ = l.Close()
	}
	page, err := os.ReadFile("../../docs/security.md")
	must(t, err)
	port := freeBase(t)
	here := strings.NewReplacer("10.0.0.", "127.0.0.", ":7101", fmt.Sprint(":", port), ":7201", fmt.Sprint(":", port+raftBehind))
	var blocks []string
	for _, rest := range strings.Split(string(page), "```sh\n")[1:] {
		block, _, _ := strings.Cut(rest, "```")
		blocks = append(blocks, here.Replace(block))
	}
	if len(blocks) < 3 || !strings.Contains(blocks[1], "stoutd --cell") {
		t.Fatalf("the page has no such blocks: %q", blocks)
	}
	_, bin, err := build(t.Context(), "./cmd/stoutd", "./cmd/stout")
	must(t, err)
	if bin, err = filepath.Abs(bin); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shell := func(ctx context.Context, in, script string) *exec.Cmd {
		sh := exec.CommandContext(ctx, "sh", "-ec", script)
		sh.Dir, sh.Env = filepath.Join(dir, in), append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		return sh
	}
	if out, err := shell(cell.Bounded(t), "", blocks[0]).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Each replica and the operator have only their own files.
	for _, owner := range []string{"r1", "r2", "r3", "operator"} {
		command := "mkdir " + owner + " && cp -p certs/ca.pem root.token " + owner
		if owner != "operator" {
			command += " && cp -p certs/" + owner + ".pem certs/" + owner + "-key.pem " + owner
		}
		if out, err := shell(cell.Bounded(t), "", command).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for i, id := range []string{"r1", "r2", "r3"} {
		own := strings.NewReplacer("--id r1", "--id "+id, "data-r1", "data-"+id, "audit-r1", "audit-"+id, "-cert r1", "-cert "+id, "-key r1", "-key "+id,
			"-listen 127.0.0.1", fmt.Sprintf("-listen 127.0.0.%d", i+1)).Replace(blocks[1])
		log, err := os.Create(filepath.Join(dir, id+".log"))
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		sh := shell(ctx, id, "exec "+own)
		sh.Stderr, sh.Stdout = log, log
		must(t, sh.Start())
		t.Cleanup(func() {
			stop()
			_ = sh.Wait()
			_ = log.Close()
		})
	}
	ready := fmt.Sprintf("curl -sf --cacert ca.pem https://127.0.0.1:%d/readyz", port)
	err = cell.Wait(cell.Bounded(t), "r1 is ready", func(ctx context.Context) error {
		return shell(ctx, "operator", ready).Run()
	})
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(dir, "r1.log"))
		t.Fatalf("%v\n%s", err, text)
	}
	out, err := shell(cell.Bounded(t), "operator", blocks[2]).CombinedOutput()
	for _, want := range []string{"REPLICA", "/billing", "done\n"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v, without %s:\n%s\nsays:\n%s", err, want, blocks[2], out)
		}
	}
	if strings.Contains(string(out), "stout_") {
		t.Errorf("a secret is on the screen:\n%s", out)
	}
	for _, file := range []string{"root.token", "operator/billing.token", "r1/audit-r1.log"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	bare := fmt.Sprintf("curl -s --cacert ca.pem https://127.0.0.2:%d/v1/cell", port)
	if out, err := shell(cell.Bounded(t), "operator", bare).Output(); err != nil || !strings.Contains(string(out), `"code":"unauthenticated"`) {
		t.Errorf("without a token: %v, %s", err, out)
	}
	err = cell.Wait(cell.Bounded(t), "the audit logs have the rule and the token", func(ctx context.Context) error {
		all, err := shell(ctx, "", "cat r?/audit-r?.log").Output()
		for _, route := range []string{"/v1/access/rules/{path}", "/v1/access/tokens"} {
			if !strings.Contains(string(all), `"principal":"user:root","how":"token"`) || !strings.Contains(string(all), route) {
				return errors.Join(err, fmt.Errorf("no %s in %s", route, all))
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
