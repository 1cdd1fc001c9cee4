package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// Answers and log lines stay short, wherever a caller puts as much as it can
// send.
func TestAnswersQuoteLittle(t *testing.T) {
	n := startMaster(t, nil)
	head, body := strings.Repeat("é", 5_000), strings.Repeat("é", 30_000)
	escaped := strings.Repeat("%C3%A9", 5_000)
	for _, c := range []struct{ method, target, header, body string }{
		{"GET", "/" + escaped, "", ""},
		{"GET", "/" + head, "", ""},
		{"GET", "/v1/locks/" + escaped, "", ""},
		{"GET", "/v1/sessions/" + escaped, "", ""},
		{"GET", "/v1/sessions/%FF" + escaped, "", ""},
		{"DELETE", "/v1/locks/a?session=" + escaped, "", ""},
		{"DELETE", "/v1/locks/a?session=s&handle=" + escaped, "", ""},
		{"DELETE", "/v1/locks/a?session=s&token=" + escaped, "", ""},
		{"GET", "/v1/locks?" + escaped + "=1", "", ""},
		{"GET", "/v1/locks?limit=" + escaped, "", ""},
		{"GET", "/v1/locks/a?consistency=" + escaped, "", ""},
		{"GET", "/v1/sequencers?value=" + escaped, "", ""},
		{"GET", "/v1/sequencers?value=exclusive:" + escaped + ":/a", "", ""},
		{"GET", "/v1/sequencers?value=exclusive:1:" + escaped, "", ""},
		{"PATCH", "/v1/locks/" + escaped, "", ""},
		{strings.Repeat("M", 20_000), "/v1/locks/a", "", ""},
		{"GET", "/v1/locks/a", "Stout-Forward: " + head, ""},
		{"POST", "/v1/sessions", "Idempotency-Key: " + head, ""},
		{"POST", "/v1/sessions", "", body},
		{"POST", "/v1/sessions", "", `{"` + body + `":1}`},
		{"POST", "/v1/sessions", "", `{"` + body[:20_000] + `":1,"` + body[:20_000] + `":1}`},
		{"POST", "/v1/sessions", "", `{"name":"` + body + `"}`},
		{"POST", "/v1/sessions", "", `{"ttl_ms":"` + body + `"}`},
		{"POST", "/v1/sessions", "", `{"ttl_ms":1` + strings.Repeat("0", 60_000) + `}`},
		{"POST", "/v1/sessions/" + escaped + "/keepalive", "", ""},
		{"PUT", "/v1/locks/a", "", `{"session":"` + body + `"}`},
		{"PUT", "/v1/locks/a", "", `{"session":"s","mode":"` + body + `"}`},
		{"PUT", "/v1/locks/a", "", `{"session":"s","handle":"` + body + `"}`},
		{"BREW" + head, "/", "", ""},
		{"GET", "/ HTTP/" + head, "", ""},
	} {
		header := ""
		if c.header != "" {
			header = c.header + "\r\n"
		}
		got := raw(t, n, c.method, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", c.method, c.target, header, len(c.body), c.body))
		what := fmt.Sprintf("%.10s %.40s %.30s %.20s", c.method, c.target, c.header, c.body)
		if got.status < 400 || got.status == http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d does not test anything", what, got.status)
			continue
		}
		if e := got.problem(t); len(e.Detail) > 1000 || len(e.Field) > 100 {
			t.Errorf("%s: a detail of %d bytes, a field of %d", what, len(e.Detail), len(e.Field))
		}
		if len(got.body) > 2000 {
			t.Errorf("%s: %d bytes in %s", what, len(got.body), lockapi.Clip(got.body))
		}
		for name, values := range got.header {
			if len(strings.Join(values, "")) > 200 {
				t.Errorf("%s: the header %s is %.300q", what, name, values)
			}
		}
	}
	if logged := n.log.String(); len(logged) > 1000 {
		t.Errorf("%d bytes are logged", len(logged))
	}
}

// The log line about an error outside the contract names the request, but
// quotes little of it.
func TestLogQuotesLittle(t *testing.T) {
	n := startMaster(t, nil)
	n.setHook(func(context.Context, string) error { return errors.New("outside the contract") })
	call(t, "GET", n.url+"/v1/locks/"+strings.Repeat("x", 200)+strings.Repeat("/é", 20), "").wantCode(t, lockapi.CodeInternal)
	if logged := n.log.String(); !strings.Contains(logged, "/v1/locks/xxx") || len(logged) > 500 {
		t.Errorf("logged: %s", logged)
	}
}
