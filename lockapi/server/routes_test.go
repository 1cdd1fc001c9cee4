package server

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// A body is read up to the limit of its route, on every path to it.
func TestBodiesAreBoundedByRoute(t *testing.T) {
	const large = 256 << 10
	files := table{
		{method: http.MethodPut, template: "/v1/files/{path}", pattern: "/v1/files/*path", body: large, handle: countBody},
		{method: http.MethodPost, template: "/v1/files/{path}", pattern: "/v1/files/*path", handle: countBody},
		{method: http.MethodPut, template: "/v1/small", pattern: "/v1/small", handle: countBody},
	}
	s := New(Options{Master: knowing{}})
	engine := s.engineOf(false, files, errNoRoute)
	direct := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(engine, w, r) })
	s.api.Handler, s.api.MaxBody = direct, files.maxBody
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer func() { _ = s.Shutdown(t.Context()) }()
	url := "http://" + l.Addr().String()
	for _, c := range []struct {
		method, path string
		most         int
	}{
		{"PUT", "/v1/files/a/b", large},
		{"POST", "/v1/files/a/b", lockapi.MaxBodyBytes},
		{"PUT", "/v1/small", lockapi.MaxBodyBytes},
		{"PUT", "/v1/%66iles/a", lockapi.MaxBodyBytes},
	} {
		if got := files.maxBody(httptest.NewRequest(c.method, c.path, nil)); got != int64(c.most) {
			t.Errorf("%s %s: %d bytes are read before it is routed", c.method, c.path, got)
		}
		for size, tooLong := range map[int]bool{c.most: false, c.most + 1: true} {
			for name, send := range map[string]func(*http.Request) int{
				"wire":     func(r *http.Request) int { return statusOver(t, r) },
				"net/http": func(r *http.Request) int { return recorded(direct, r) },
			} {
				for _, chunked := range []bool{false, true} {
					r := httptest.NewRequest(c.method, url+c.path, strings.NewReader(strings.Repeat("x", size)))
					if r.RequestURI = ""; chunked {
						r.ContentLength = -1
					}
					if got := send(r); (got == http.StatusRequestEntityTooLarge) != tooLong {
						t.Errorf("%s %s, %d bytes by %s, chunked %v: %d", c.method, c.path, size, name, chunked, got)
					}
				}
			}
		}
	}
}

func countBody(x *exchange) error { return x.reply(http.StatusOK, len(x.body)) }

func recorded(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// statusOver returns the status of the answer on a connection.
func statusOver(t *testing.T, r *http.Request) int {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
