package config

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestWriteTable(t *testing.T) {
	in := cell("--log-level", "debug", "--allow-origin", "https://UI.example.com:443", "--allow-origin", "http://[::1]:8080")
	in.env = []string{"STOUTD_HEARTBEAT_TIMEOUT=300ms"}
	var out bytes.Buffer
	if err := mustLoad(t, in).WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if at := strings.Index(out.String(), "SOURCE"); line[at-1] != ' ' || line[at] == ' ' {
			t.Errorf("not in columns: %s", line)
		}
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"SETTING VALUE SOURCE",
		"id r2 flag --id",
		"replica r2=127.0.0.1:7202,http://127.0.0.1:7102 flag --replica",
		"master-lease 390ms default, 1.3 × heartbeat-timeout",
		"heartbeat-timeout 300ms environment STOUTD_HEARTBEAT_TIMEOUT",
		"api-cert - default",
		"allow-origin https://ui.example.com flag --allow-origin",
		"allow-origin http://[::1]:8080 flag --allow-origin",
		"log-format json default",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	for _, s := range settings(Default()) {
		if !strings.Contains(out.String(), "\n"+s.name+" ") {
			t.Errorf("no line of %s", s.name)
		}
	}
}

func TestYAMLReadsBackTheSame(t *testing.T) {
	for name, in := range map[string]input{
		"cell":             cell("--master-lease", "2s", "--data-dir", "a: b # c", "--max-bytes", "3GiB", "--max-waiters", "0"),
		"audit":            cell("--audit-log", "-", "--audit-changes"),
		"backups":          cell("--backup-dir", "b", "--backup-every", "1h", "--backup-keep", "5"),
		"traces":           cell("--trace-endpoint", "https://otel.example:4318", "--trace-share", "0.01"),
		"audit to a file":  cell("--audit-log", "a.log", "--audit-required", "--audit-max-size", "100MiB", "--audit-keep", "5"),
		"a name of digits": cell("--cell", "007"),
		"lists":            cell("--allow-origin", "http://a", "--allow-origin", "https://[::1]:8", "--api-host", "007", "--api-host", "stout.example.com"),
		"dev":              {args: []string{"--dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, in)
			var out bytes.Buffer
			if err := c.WriteYAML(&out); err != nil {
				t.Fatal(err)
			}
			again := mustLoad(t, input{file: out.String()})
			c.sources, again.sources = nil, nil
			c.File, again.File = "", ""
			if !reflect.DeepEqual(again, c) {
				t.Errorf("read back: %+v\nwant:      %+v\nfile:\n%s", again, c, out.String())
			}
		})
	}
}

// TestExampleFiles: Load accepts every file in configs.
func TestExampleFiles(t *testing.T) {
	files, err := filepath.Glob("../../../configs/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("configs: %v %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := mustLoad(t, input{args: []string{"--config", file}})
			if c.File != file || !strings.Contains(string(c.Source("api-listen")), filepath.Base(file)) {
				t.Errorf("File = %q, source of api-listen = %q", c.File, c.Source("api-listen"))
			}
		})
	}
}
