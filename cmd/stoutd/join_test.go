package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	got bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got.String()
}

// TestWaitingServes: a replica whose cell is not founded serves and says for
// whom it waits, in the log once, and stops in good order.
func TestWaitingServes(t *testing.T) {
	api, raft := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	nobody := "127.0.0.1:" + freePort(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log lines
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{
			"--cell", "local", "--id", "r1", "--data-dir", t.TempDir(), "--api-listen", api, "--raft-listen", raft,
			"--replica", "r1=" + raft + ",http://" + api, "--replica", "r2=" + nobody + ",http://" + nobody,
		}, &log, &log)
	}()
	says := &lockapi.Error{}
	ask := func() bool {
		resp, err := http.Get("http://" + api + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		err = json.NewDecoder(resp.Body).Decode(says)
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(says.Detail, "waiting for r2")
	}
	for deadline := time.Now().Add(20 * time.Second); !ask(); {
		if time.Now().After(deadline) {
			t.Fatalf("it says %+v; its log:\n%s", says, &log)
		}
		<-time.After(5 * time.Millisecond)
	}
	if says.Directory == "" || says.Command != "" {
		t.Errorf("it says %+v", says)
	}
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	if told := strings.Count(log.String(), "waiting for r2"); told != 1 {
		t.Errorf("it tells %d times for whom it waits:\n%s", told, &log)
	}
	if !strings.Contains(log.String(), `"message":"stopped"`) {
		t.Errorf("no good order:\n%s", &log)
	}
}
