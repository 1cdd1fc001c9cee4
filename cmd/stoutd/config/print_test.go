package config

import (
	"bytes"
	"path/filepath"
	"reflect"
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
	want := `
SETTING                  VALUE                                     SOURCE
cell                     local                                     flag --cell
id                       r2                                        flag --id
data-dir                 data                                      flag --data-dir
dev                      false                                     default
api-listen               127.0.0.1:7101                            default
consul-listen            -                                         default
raft-listen              127.0.0.1:7201                            default
replica                  r1=127.0.0.1:7201,http://127.0.0.1:7101   flag --replica
replica                  r2=127.0.0.1:7202,http://127.0.0.1:7102   flag --replica
replica                  r3=127.0.0.1:7203,http://127.0.0.1:7103   flag --replica
join                     -                                         default
auto-replace             0s                                        default
master-lease             450ms                                     default, 1.5 × heartbeat-timeout
heartbeat-timeout        300ms                                     environment STOUTD_HEARTBEAT_TIMEOUT
election-timeout         300ms                                     default, as heartbeat-timeout
stale-for                1m0s                                      default
clock-drift              0.01                                      default
snapshot-threshold       8192                                      default
snapshot-interval        30s                                       default
trailing-logs            10240                                     default
event-history            65536                                     default
event-history-bytes      64MiB                                     default
log-store                wal                                       default
shutdown-timeout         8s                                        default
api-cert                 -                                         default
api-key                  -                                         default
api-client-ca            -                                         default
api-client-auth          none                                      default
raft-cert                -                                         default
raft-key                 -                                         default
raft-ca                  -                                         default
max-sessions             100000                                    default
max-holds                500000                                    default
max-waiters              100000                                    default
max-files                200000                                    default
max-content              512MiB                                    default
max-bytes                1GiB                                      default
max-session-holds        10000                                     default
max-session-waiters      10000                                     default
max-session-bytes        64MiB                                     default
max-watchers             20000                                     default
max-anonymous-watchers   32                                        default
max-connections          0                                         default
allow-origin             https://ui.example.com                    flag --allow-origin
allow-origin             http://[::1]:8080                         flag --allow-origin
api-host                 -                                         default
jwt-issuer               -                                         default
jwt-audience             -                                         default
jwt-keys                 -                                         default
jwt-claim                sub                                       default
jwt-prefix               -                                         default
certificate-prefix       -                                         default
found-token-file         -                                         default
break-glass-token-file   -                                         default
public-metrics           false                                     default
audit-log                -                                         default
audit-changes            false                                     default
audit-required           false                                     default
audit-max-size           0                                         default
audit-keep               0                                         default
backup-dir               -                                         default
backup-every             0s                                        default
backup-keep              24                                        default
trace-endpoint           -                                         default
trace-share              0                                         default
log-level                debug                                     flag --log-level
log-format               json                                      default
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("table:%s\nwant:%s", got, want)
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
