package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stoutlock/stout/internal/page"
	"github.com/stoutlock/stout/test/bench/internal/drive"
)

// TestViewersAskAsThePage: the paces are those of the page that the binary has.
func TestViewersAskAsThePage(t *testing.T) {
	for name, want := range map[string]string{
		"view-cell.js": fmt.Sprintf("title: 'Cell', pace: %d,", viewCell.Milliseconds()),
		"page.js":      fmt.Sprintf("pace.members = name === 'members' ? 2000 : %d_000;", int(viewMembers.Seconds())),
		"store.js":     "limit: PAGE",
	} {
		if f, ok := page.Find(name); !ok || !strings.Contains(string(f.Content), want) {
			t.Errorf("%s says no %q: have the viewers ask as the page does", name, want)
		}
	}
}

// TestViewer: a page asks for each of its things, and goes on listening.
func TestViewer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	asked := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Accept") == "text/event-stream" {
			asked["stream"]++
		}
		asked[r.URL.Path]++
		if asked["/v1/cell"] > 1 && asked["/v1/events"] > 1 && asked["/v1/members"] > 0 && asked["/v1/locks"] > 0 {
			cancel()
		}
		if r.URL.Path == "/v1/members" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer s.Close()
	v := newViewer(drive.Way{Token: "secret"}, s.URL)
	v.look(ctx)
	v.via.CloseIdleConnections()
	if asked["/v1/access/whoami"] != 1 || asked["stream"] != asked["/v1/events"] || v.failed.Load() == 0 {
		t.Errorf("%v, %d failed", asked, v.failed.Load())
	}
}
