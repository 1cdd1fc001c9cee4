package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestConsulImport: an export is written in transactions that the door takes, in
// its order. After a refusal the rest is not written.
func TestConsulImport(t *testing.T) {
	var keys []string
	var most, transactions int
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var ops []struct {
			KV struct {
				Verb, Key string
				Flags     uint64
				Value     []byte
			}
		}
		if err := json.Unmarshal(body, &ops); err != nil || r.Method != "PUT" || r.URL.Path != "/v1/txn" || r.Header.Get("Authorization") != "" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		if transactions++; strings.HasPrefix(ops[0].KV.Key, "refused") {
			http.Error(w, "Permission denied: no", http.StatusForbidden)
			return
		}
		most = max(most, len(ops))
		for _, op := range ops {
			keys = append(keys, fmt.Sprintf("%s %s %d %.2s", op.KV.Verb, op.KV.Key, op.KV.Flags, op.KV.Value))
		}
	}))
	defer door.Close()
	run := func(export string) (int, string) {
		t.Helper()
		dir := t.TempDir()
		file, out := filepath.Join(dir, "export"), filepath.Join(dir, "out")
		if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
			t.Fatal(err)
		}
		to, err := os.Create(out)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		code := Run(t.Context(), []string{"consul", "import", "--door", door.URL, file}, nil, to, to)
		text, _ := os.ReadFile(out)
		return code, string(text)
	}

	if code, text := run(`[{"key":"a/","flags":0,"value":""},{"key":"b","flags":42,"value":"aGVsbG8="}]`); code != 0 || text != "2 keys written\n" {
		t.Errorf("%d %s", code, text)
	}
	if want := []string{"set a/ 0 ", "set b 42 he"}; !slices.Equal(keys, want) {
		t.Errorf("written are %q, want %q", keys, want)
	}
	type exported struct {
		Key   string `json:"key"`
		Value []byte `json:"value"`
	}
	many := make([]exported, 200)
	for i := range many {
		many[i] = exported{Key: fmt.Sprint("many/", i), Value: make([]byte, 10_000)}
	}
	many[150].Value = make([]byte, 512<<10)
	export, _ := json.Marshal(many)
	transactions = 0
	if code, text := run(string(export)); code != 0 || len(keys) != 202 || most > 64 || transactions < 8 {
		t.Errorf("%d %s: %d keys in %d transactions of at most %d", code, text, len(keys), transactions, most)
	}
	many[64].Key = "refused"
	export, _ = json.Marshal(many[38:])
	if code, text := run(string(export)); code != 1 || !strings.Contains(text, "Permission denied: no") || !strings.Contains(text, "26 of 162 keys are written") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := run(`{"key":"a"}`); code != 1 || !strings.Contains(text, "not what consul kv export prints") {
		t.Errorf("%d %s", code, text)
	}
}

// TestConsulImportNeedsADoor: without --door nothing is sent, whatever
// CONSUL_HTTP_ADDR names.
func TestConsulImportNeedsADoor(t *testing.T) {
	from := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the Consul of the export was called") }))
	defer from.Close()
	t.Setenv("CONSUL_HTTP_ADDR", from.URL)
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if code := Run(t.Context(), []string{"consul", "import"}, in, in, in); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}
