package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/lockapi"
)

// invokeOn runs a command with answer on its standard input.
func invokeOn(t *testing.T, answer string, args ...string) (code int, said string) {
	t.Helper()
	return invokeFrom(t.Context(), strings.NewReader(answer), args...)
}

func invokeFrom(ctx context.Context, in io.Reader, args ...string) (code int, said string) {
	var out bytes.Buffer
	log := setup.Lines(&out)
	root := newRoot(log)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(ctx)
	log.Flush(time.Minute)
	if err != nil {
		return err.(exitError).code, out.String() + err.Error()
	}
	return exitOK, out.String()
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestRecover: the command shows the consequences and asks for confirmation. The new
// cell has the state of the replica; the old directory remains, and is never opened
// again.
func TestRecover(t *testing.T) {
	api, raft := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	top := t.TempDir()
	old, into := filepath.Join(top, "old"), filepath.Join(top, "new")
	settings := []string{"--cell", "prod", "--id", "r1", "--api-listen", api, "--raft-listen", raft, "--replica", "r1=" + raft + ",http://" + api, "--data-dir", old}
	log, stop := serving(t, settings...)
	wrote := false
	for deadline := time.Now().Add(time.Minute); !wrote && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+api+lockapi.RouteFiles+"/kept", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			wrote = resp.StatusCode == http.StatusCreated
		}
	}
	recover := append([]string{"recover", "--into", into}, settings...)
	if code, said := invokeOn(t, "yes\n", recover...); code != exitStart || !strings.Contains(said, "in use") {
		t.Errorf("beside a running replica: %d: %s", code, said)
	}
	if got := stop(); got != exitOK || !wrote {
		t.Fatalf("exit code %d, wrote %v: %s", got, wrote, log)
	}
	for _, inside := range []string{old, filepath.Join(old, "new"), top} {
		if code, said := invokeOn(t, "yes\n", append(recover, "--into", inside)...); code != exitStart || !strings.Contains(said, "one contains the other") {
			t.Errorf("into %s: %d: %s", inside, code, said)
		}
	}
	for _, answer := range []string{"", "no\n", "y\n"} {
		if code, said := invokeOn(t, answer, recover...); code != exitStart || !strings.Contains(said, "must never run again") || !strings.Contains(said, "nothing was changed") {
			t.Errorf("answer %q: %d: %s", answer, code, said)
		}
		if _, err := os.Stat(into); !os.IsNotExist(err) {
			t.Errorf("answer %q: %v", answer, err)
		}
	}
	// An interrupt at the question, which has no answer yet.
	ctx, interrupt := context.WithCancel(t.Context())
	unanswered := readerFunc(func([]byte) (int, error) {
		interrupt()
		select {
		case <-t.Context().Done():
		case <-time.After(time.Minute):
		}
		return 0, io.EOF
	})
	if code, said := invokeFrom(ctx, unanswered, recover...); code != exitStart || !strings.Contains(said, "canceled; nothing was changed") {
		t.Errorf("interrupted: %d: %s", code, said)
	}
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // a process stopped by a signal accepts connections, too
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	beside := append(recover, "--replica", "r2="+hangs.Addr().String()+",http://127.0.0.1:"+freePort(t))
	for gone, want := range map[string]string{
		"":   "replica r2 of this cell may run: its address " + hangs.Addr().String(),
		"r9": "its replicas are r1, r2; nothing was changed",
		"r2": "nothing was changed",
	} {
		args := beside
		if gone != "" {
			args = append(beside, "--gone", gone)
		}
		if code, said := invokeOn(t, "no\n", args...); code != exitStart || !strings.Contains(said, want) {
			t.Errorf("--gone %s: %d: %s", gone, code, said)
		}
	}
	// A replica that starts before the answer.
	late, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := late.Addr().String()
	late.Close()
	asked := readerFunc(func(p []byte) (int, error) {
		if late, err = net.Listen("tcp", address); err != nil {
			return 0, err
		}
		return copy(p, "yes\n"), nil
	})
	if code, said := invokeFrom(t.Context(), asked, append(recover, "--replica", "r2="+address+",http://127.0.0.1:"+freePort(t))...); code != exitStart || !strings.Contains(said, "replica r2 of this cell may run") {
		t.Errorf("a replica started meanwhile: %d: %s", code, said)
	}
	late.Close()
	if code, said := invokeOn(t, "", append(recover, "--yes")...); code != exitOK || !strings.Contains(said, "founded cell prod") {
		t.Fatalf("%d: %s", code, said)
	}
	if code, said := invokeOn(t, "", append(recover, "--yes")...); code != exitStart || !strings.Contains(said, "the cell was recovered from it") {
		t.Errorf("again: %d: %s", code, said)
	}
	// As after a first run that was killed before it recorded the new cell.
	if err := os.WriteFile(filepath.Join(old, "recovered.json"), fmt.Appendf(nil, `{"into":%q,"cell_id":""}`, into), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := invokeOn(t, "", "--data-dir", old, "--cell", "prod", "--id", "r1", "--replica", "r1="+raft+",http://"+api); code != exitStart || !strings.Contains(said, "run it again to finish that") {
		t.Errorf("a replica in the old directory: %d: %s", code, said)
	}
	if code, said := invokeOn(t, "", append(recover, "--yes", "--into", into+"-2")...); code != exitStart || !strings.Contains(said, "in "+into+" from data directory "+old) {
		t.Errorf("into another directory: %d: %s", code, said)
	}
	if err := os.WriteFile(filepath.Join(old, "recovered.json"), fmt.Appendf(nil, `{"into":%q,"cell_id":""}`, into), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := invokeOn(t, "", append(recover, "--yes")...); code != exitOK || !strings.Contains(said, "an earlier run, which was interrupted, founded cell prod with id ") {
		t.Errorf("the next run: %d: %s", code, said)
	}
	// The new directory belongs to a member of another cell, which serves after a
	// minute.
	log, stop = serving(t, append(settings, "--data-dir", into)...)
	stale := 0
	for deadline := time.Now().Add(time.Minute); stale != http.StatusOK && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if resp, err := http.Get("http://" + api + lockapi.RouteFiles + "/kept?consistency=stale"); err == nil {
			resp.Body.Close()
			stale = resp.StatusCode
		}
	}
	if got := stop(); got != exitOK || stale != http.StatusOK {
		t.Errorf("exit code %d, status %d: %s", got, stale, log)
	}
}
