package embed

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestJoiningOneThatJoins: the error does not quote the detail of a replica that is not
// a member. It may wait for this replica, and the two would quote each other in
// details that grow with each call.
func TestJoiningOneThatJoins(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   any
		want   string
	}{
		"waits itself":    {http.StatusServiceUnavailable, lockapi.Error{Code: lockapi.CodeNoMaster, Detail: "to join cell x, waiting for http://b", Directory: "5f0a81c2d3e4b697"}, "not a member either"},
		"of another cell": {http.StatusConflict, lockapi.Error{Code: lockapi.CodeConflict, Detail: "a replica of another cell"}, "a replica of another cell"},
		"something else":  {http.StatusNotFound, "<html>", "404 Not Found; is it the URL of a replica?"},
		"no members":      {http.StatusOK, lockapi.Joining{}, "returned no members"},
	} {
		t.Run(name, func(t *testing.T) {
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_ = json.NewEncoder(w).Encode(tc.body)
			}))
			defer at.Close()
			_, err := askToJoin(t.Context(), at.Client(), "prod", []string{at.URL})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "waiting for") {
				t.Errorf("%v", err)
			}
		})
	}
}
