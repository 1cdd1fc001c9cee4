package history

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// grantText is a grant that answers the request of send.
const grantText = `{"path":"/a b","state":"held","session":"S","handle":"h","mode":"exclusive","token":7}`

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send makes an acquire through a recorder, at a server with the given answer.
// It returns the recorded attempt and the body that the caller read.
func send(t *testing.T, status int, contentType, body string) (Attempt, string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(in), `"handle":"h"`) {
			t.Errorf("the server got %q, %v", in, err)
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set(lockapi.HeaderEpoch, "4")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	return sendTo(t, server.URL)
}

func sendTo(t *testing.T, base string) (Attempt, string) {
	t.Helper()
	in := lockapi.NewLockRequest("S")
	in.Handle, in.WaitMS = "h", 3
	text, err := json.Marshal(in)
	must(t, err)
	req, err := http.NewRequest(http.MethodPut, base+"/v1/locks/a%20b", strings.NewReader(string(text)))
	must(t, err)
	r := NewRecorder()
	got := ""
	if resp, err := r.Transport("c", nil).RoundTrip(req); err == nil {
		content, err := io.ReadAll(resp.Body)
		must(t, err)
		got = string(content)
	}
	all := r.Attempts()
	if len(all) != 1 {
		t.Fatalf("recorded %v, want one attempt", all)
	}
	return all[0], got
}

// TestRecorderTellsOutcomes: each answer gets the outcome that the contract
// gives it.
func TestRecorderTellsOutcomes(t *testing.T) {
	problem := func(code lockapi.Code) (int, string, string) {
		text, err := json.Marshal(lockapi.Errorf(code, "why"))
		must(t, err)
		return code.Status(), "application/problem+json", string(text)
	}
	for code, want := range map[lockapi.Code]Outcome{
		lockapi.CodeLockHeld: Refused, lockapi.CodeLockDelayed: Refused, lockapi.CodeSessionNotFound: Gone,
		lockapi.CodeNoMaster: NoEffect, lockapi.CodeNotMaster: NoEffect, lockapi.CodeTooMany: NoEffect,
		lockapi.CodeOutcomeUnknown: Unknown, lockapi.CodeInternal: Wrong, lockapi.CodeInvalidArgument: Wrong, lockapi.CodeConflict: Wrong,
	} {
		if a, _ := send(t, 0+code.Status(), "application/problem+json", third(problem(code))); a.Outcome != want {
			t.Errorf("%s counts as %q, want %q", code, a.Outcome, want)
		}
	}
	for text, want := range map[string]Outcome{
		grantText: Done, "no JSON": Wrong, strings.Replace(grantText, `"S"`, `"T"`, 1): Wrong, strings.Replace(grantText, "7", "0", 1): Wrong,
	} {
		if a, _ := send(t, http.StatusOK, "application/json", text); a.Outcome != want {
			t.Errorf("%s counts as %q, want %q", text, a.Outcome, want)
		}
	}
	placed := strings.Replace(strings.Replace(grantText, `"token":7`, `"position":1`, 1), "held", "queued", 1)
	if a, _ := send(t, http.StatusAccepted, "application/json", placed); a.Outcome != Queued {
		t.Errorf("a 202 counts as %q", a.Outcome)
	}
}

func third(_ int, _ string, text string) string { return text }

// TestRecorderKeepsTheAttempt: the record has the details of the request and
// the answer, and the caller can read the answer.
func TestRecorderKeepsTheAttempt(t *testing.T) {
	a, got := send(t, http.StatusOK, "application/json", grantText)
	if got != grantText {
		t.Errorf("the caller read %q", got)
	}
	if a.Kind != Acquire || a.Path != "/a b" || a.who() != "S/h" || a.Token != 7 || a.WaitMS != 3 || a.Epoch != 4 || a.Client != "c" || a.Return <= a.Call {
		t.Errorf("recorded %+v", a)
	}
}

// TestRecorderTellsLostFromNotSent: a refused connection had no effect; a
// broken one may have had one.
func TestRecorderTellsLostFromNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	base := "http://" + l.Addr().String()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	if a, _ := sendTo(t, base); a.Outcome != Unknown {
		t.Errorf("a connection that broke: %q", a.Outcome)
	}
	_ = l.Close()
	if a, _ := sendTo(t, base); a.Outcome != NoEffect {
		t.Errorf("a connection that was refused: %q", a.Outcome)
	}
}

// TestRecorderLeavesOthersAlone: stale reads, lists and the cell's state are
// not recorded.
func TestRecorderLeavesOthersAlone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	r := NewRecorder()
	c := &http.Client{Transport: r.Transport("c", nil)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, target := range []string{"/v1/locks/x?consistency=stale", "/v1/locks?prefix=/", "/v1/cell", "/v1/sessions/S"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+target, nil)
		must(t, err)
		resp, err := c.Do(req)
		must(t, err)
		resp.Body.Close()
	}
	if all := r.Attempts(); len(all) > 0 {
		t.Errorf("recorded %v", all)
	}
}
