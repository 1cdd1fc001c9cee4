package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
)

// firstHangs is a transport. Its first replica never answers.
type firstHangs struct{ body string }

func (f firstHangs) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "r1" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(f.body))}, nil
}

// The answer of another replica is checked by itself, while the first replica
// is silent.
func TestOtherReplicasAnswerIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		new := func(body string) *client.Client {
			c, err := client.Config{
				URLs: []string{"http://r1", "http://r2"}, OnlyURLs: true, Transport: firstHangs{body},
				Clock: func() time.Duration { return time.Since(start) },
			}.New()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		if who, err := admin.New(new(`{"principal":"user:a","how":"token"}`)).Access().WhoAmI(t.Context()); err != nil || who.Principal != "user:a" {
			t.Errorf("WhoAmI: %+v, %v", who, err)
		}
		if rule, err := admin.New(new(`{"path":"/a"}`)).Access().Rule(t.Context(), "/a"); err != nil || rule.Path != "/a" {
			t.Errorf("Rule: %+v, %v", rule, err)
		}
		if h, err := admin.New(new(`{"path":"/a","events":[]}`)).History(t.Context(), "/a", 0); err != nil || h.Path != "/a" {
			t.Errorf("History: %+v, %v", h, err)
		}
	})
}
