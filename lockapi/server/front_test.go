package server

import (
	"net/http"
	"strings"
	"testing"
)

func TestReasonOfWhatCannotBeParsedIsTold(t *testing.T) {
	s := New(Options{Master: knowing{}})
	got := string(s.refuse(http.StatusBadRequest, "missing required Host header"))
	for _, part := range []string{
		"HTTP/1.1 400 Bad Request\r\n", "\r\nStout-Epoch: 7\r\n", "\r\nContent-Type: application/problem+json\r\n",
		"\r\nConnection: close\r\n", `"detail":"missing required Host header"`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
}

// A dropped incomplete request gets an answer with advice.
func TestCrowdedOutIsTold(t *testing.T) {
	s := New(Options{Master: knowing{}})
	got := string(s.refuse(http.StatusTooManyRequests, ""))
	for _, part := range []string{"HTTP/1.1 429 Too Many Requests\r\n", "\r\nRetry-After: 1\r\n", `"code":"too_many"`, "send it again"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
}
