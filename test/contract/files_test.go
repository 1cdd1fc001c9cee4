package contract_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestFilesAndEvents tests the answers about files, transactions and events,
// through each replica.
func TestFilesAndEvents(t *testing.T) {
	t.Parallel()
	c, _, _ := start(t, "--event-history=200")
	t.Run("contents", func(t *testing.T) { contents(t, c) })
	t.Run("reads have a revision", func(t *testing.T) { readsHaveARevision(t, c) })
	t.Run("lists", func(t *testing.T) { fileLists(t, c) })
	t.Run("transactions", func(t *testing.T) { transactions(t, c) })
	t.Run("exactly once", func(t *testing.T) { exactlyOnce(t, c) })
	t.Run("same events", func(t *testing.T) { sameEvents(t, c) })
	t.Run("streams", func(t *testing.T) { streams(t, c) })
	t.Run("compacted", func(t *testing.T) { compacted(t, c) })
}

func revision(t *testing.T, r *cell.Replica) string {
	t.Helper()
	_, h := call(t, r, http.StatusOK, "GET", "/v1/locks/none", "")
	return h.Get("Stout-Revision")
}

// contents: any bytes are returned unchanged.
func contents(t *testing.T, c *cell.Cell) {
	for _, r := range c.Replicas() {
		for i, content := range []string{"", "a\nb\r\n\r\ndata: x\n\n", "\xff\x00\xfe", "\x00", "é\u2028<&>", strings.Repeat("x", lockapi.MaxFileBytes)} {
			route := fmt.Sprintf("/v1/files/contents/%s%%20%%C3%%A9%%25/%d", r.ID, i)
			stat, _ := call(t, r, http.StatusCreated, "PUT", route, content, "Content-Type: application/x-www-form-urlencoded")
			if err := has(stat, object{"path": fmt.Sprintf("/contents/%s é%%/%d", r.ID, i), "size": len(content), "generation": 1, "instance": stat["revision"]}); err != nil {
				t.Error(err)
			}
			tag := fmt.Sprintf(`"%.0f"`, stat["revision"])
			kind := "text/plain; charset=utf-8"
			if strings.Contains(content, "\xff") {
				kind = "application/octet-stream"
			}
			for _, from := range c.Replicas() {
				got := exchange(t, from, "GET", route, "")
				if got.body != content || got.header.Get("ETag") != tag || got.header.Get("Content-Type") != kind || got.header.Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%s at %s: %d, %v, %.50q", route, from.ID, got.status, got.header, got.body)
				}
				if got := exchange(t, from, "HEAD", route, ""); got.status != 200 || got.header.Get("Content-Length") != fmt.Sprint(len(content)) || got.header.Get("ETag") != tag {
					t.Errorf("HEAD %s at %s: %d, %v", route, from.ID, got.status, got.header)
				}
				if _, h := call(t, from, http.StatusNotModified, "GET", route, "", "If-None-Match: "+tag); h.Get("ETag") != tag || h.Get("Stout-Revision") == "" {
					t.Errorf("304 of %s at %s: %v", route, from.ID, h)
				}
			}
		}
		long := strings.Repeat("x", lockapi.MaxFileBytes+1)
		got, _ := call(t, r, http.StatusRequestEntityTooLarge, "PUT", "/v1/files/contents/long", long)
		if err := has(got, object{"code": "too_large"}); err != nil {
			t.Error(err)
		}
		call(t, r, http.StatusNotFound, "GET", "/v1/files/contents/long", "")
	}
}

// readsHaveARevision: every answer to a read has a revision, and HEAD equals
// GET.
func readsHaveARevision(t *testing.T, c *cell.Cell) {
	for _, r := range c.Replicas() {
		for route, status := range map[string]int{
			"/v1/files": 200, "/v1/files/none": 404, "/v1/locks": 200, "/v1/locks/none": 200, "/v1/sessions": 200, "/v1/sessions/none": 404,
			"/v1/files?consistency=stale": 200, "/v1/files/none?consistency=stale": 404, "/v1/sessions/none?consistency=stale": 404,
		} {
			if got := exchange(t, r, "HEAD", route, ""); got.status != status || got.header.Get("Stout-Revision") == "" {
				t.Errorf("HEAD %s at %s: %d, %v", route, r.ID, got.status, got.header)
			}
		}
		for _, accept := range []string{"application/json", "text/event-stream"} {
			if got := exchange(t, r, "HEAD", "/v1/events?after=0", "", "Accept: "+accept); got.status != 200 || got.header.Get("Content-Type") != accept {
				t.Errorf("HEAD of events as %s at %s: %d, %v", accept, r.ID, got.status, got.header)
			}
		}
	}
}

// fileLists: pages of any size, with and without directories.
func fileLists(t *testing.T, c *cell.Cell) {
	master := c.Ready(t)
	for _, path := range []string{"/a", "/a/b", "/a/c/d", "/a!", "/b/x", "/c", "/Z"} {
		call(t, master, http.StatusCreated, "PUT", "/v1/files/lists"+path, path)
	}
	for _, r := range c.Replicas() {
		for query, want := range map[string]string{
			"prefix=/lists/":             "/lists/Z /lists/a /lists/a! /lists/a/b /lists/a/c/d /lists/b/x /lists/c",
			"prefix=/lists/&delimiter=/": "/lists/Z /lists/a /lists/a! /lists/a/ /lists/b/ /lists/c", "prefix=/lists/a/": "/lists/a/b /lists/a/c/d",
			"prefix=/lists/a": "/lists/a /lists/a! /lists/a/b /lists/a/c/d", "prefix=/lists/a&delimiter=/": "/lists/a /lists/a! /lists/a/",
			"prefix=/lists&delimiter=/": "/lists/", "prefix=/none/": "",
		} {
			for limit := 1; limit <= 8; limit++ {
				if got := strings.Join(pages(t, r, query, limit), " "); got != want {
					t.Errorf("%s, %d a page, at %s: %s, want %s", query, limit, r.ID, got, want)
				}
			}
		}
		top, _ := call(t, r, http.StatusOK, "GET", "/v1/files?delimiter=/", "")
		if dirs := fmt.Sprint(top["dirs"]); !strings.Contains(dirs, "/lists/") {
			t.Errorf("the top at %s: %v", r.ID, top)
		}
	}
	call(t, master, http.StatusCreated, "PUT", "/v1/files/listsbeside", "")
	got, _ := call(t, master, http.StatusOK, "DELETE", "/v1/files?prefix=/lists/a/", "")
	if err := has(got, object{"deleted": 2, "revision": revision(t, master)}); err != nil {
		t.Error(err)
	}
	got, _ = call(t, master, http.StatusOK, "DELETE", "/v1/files?prefix=/lists/", "")
	if err := has(got, object{"deleted": 5}); err != nil {
		t.Error(err)
	}
	call(t, master, http.StatusOK, "GET", "/v1/files/listsbeside?as=json", "")
}

// pages returns the entries of a list in bytewise order. It checks that no page
// exceeds the limit.
func pages(t *testing.T, r *cell.Replica, query string, limit int) (all []string) {
	t.Helper()
	for after := ""; ; {
		page, _ := call(t, r, http.StatusOK, "GET", fmt.Sprintf("/v1/files?%s&limit=%d%s", query, limit, after), "")
		var one []string
		for _, f := range list(t, page, "files") {
			one = append(one, f["path"].(string))
		}
		for _, dir := range page["dirs"].([]any) {
			one = append(one, dir.(string))
		}
		if len(one) > limit {
			t.Fatalf("%s: a page of %d with %d entries", query, limit, len(one))
		}
		all = append(all, sortedStrings(one)...)
		next, more := page["next"].(string)
		if !more {
			return all
		}
		after = "&after=" + next
	}
}
