package config

import (
	"strings"
	"testing"
)

// TestRefusals has one input for each reason to refuse a configuration. Each has a
// single fault, and the error is a single line.
func TestRefusals(t *testing.T) {
	env := func(line string) input { in := cell(); in.env = []string{line}; return in }
	file := func(content string) input { in := cell(); in.file = content; return in }
	with := func(replica string) input { return cell("--replica", replica) }

	for _, test := range []struct {
		name string
		in   input
		want string
	}{
		{"no cell", input{args: threeReplicas[2:]}, `cell: it is required: the name of the cell (or --dev, to try things out); give --cell, STOUTD_CELL, or cell in the file`},
		{"cell with a space", cell("--cell", "a b"), `cell "a b" (flag --cell): a name is 1 to 64`},
		{"id not in the list", cell("--id", "r9"), `id "r9" (flag --id): the list of replicas (flag --replica) has no such id; it has r1, r2, r3`},
		{"empty data directory", cell("--data-dir", ""), `data-dir (flag --data-dir): it is required`},

		{"directory that is not UTF-8", cell("--data-dir", "a\xff"), `a\xff" (flag --data-dir): it is not UTF-8`},
		{"replica that is not UTF-8", env("STOUTD_REPLICA=r1=h\xff:1"), `(environment STOUTD_REPLICA): it is not UTF-8`},
		{"file that is not UTF-8", file("data-dir: a\xff\n"), `not YAML: it is not UTF-8`},

		{"bad duration", cell("--master-lease", "2"), `master-lease "2" (flag --master-lease): not a duration; write a number and a unit`},
		{"bad duration in the environment", env("STOUTD_MASTER_LEASE=soon"), `master-lease "soon" (environment STOUTD_MASTER_LEASE): not a duration`},
		{"bad duration in the file", file("\nmaster-lease: soon\n"), `master-lease "soon" (r.yaml:2): not a duration`},
		{"bad number", cell("--trailing-logs", "-1"), `trailing-logs "-1" (flag --trailing-logs): not a whole number`},
		{"bad fraction", cell("--clock-drift", "1%"), `clock-drift "1%" (flag --clock-drift): not a number`},
		{"bad bool", cell("--dev=perhaps"), `dev "perhaps" (flag --dev): not true or false`},

		{"lease too long", cell("--master-lease", "61s"), `master-lease "1m1s" (flag --master-lease): at most 1m0s`},
		{"lease too short", cell("--heartbeat-timeout", "50ms", "--master-lease", "60ms"), `master-lease "60ms" (flag --master-lease): at least 100ms`},
		{"lease shorter than a heartbeat", cell("--master-lease", "400ms"), `master-lease "400ms" (flag --master-lease): shorter than heartbeat-timeout (500ms, default)`},
		{"election shorter than a heartbeat", cell("--election-timeout", "400ms"), `election-timeout "400ms" (flag --election-timeout): shorter than heartbeat-timeout (500ms, default)`},
		{"heartbeat too short", cell("--heartbeat-timeout", "1ms", "--election-timeout", "1s", "--master-lease", "1s"), `heartbeat-timeout "1ms" (flag --heartbeat-timeout): at least 50ms`},
		{"negative drift", cell("--clock-drift", "-0.1"), `clock-drift "-0.1" (flag --clock-drift): at least 0`},
		{"drift that is no number", cell("--clock-drift", "NaN"), `clock-drift "NaN" (flag --clock-drift): at least 0`},
		{"no snapshots", cell("--snapshot-threshold", "0"), `snapshot-threshold "0" (flag --snapshot-threshold): at least 1`},
		{"changes audited nowhere", cell("--audit-changes"), `audit-changes "true" (flag --audit-changes): it needs an audit log: give audit-log as well`},
		{"an audit required nowhere", cell("--audit-required"), `(flag --audit-required): it needs an audit log`},
		{"an audit of no size", cell("--audit-max-size=1MiB"), `(flag --audit-max-size): it needs an audit log`},
		{"audits kept nowhere", cell("--audit-keep=1"), `(flag --audit-keep): it needs an audit log`},
		{"standard output put aside", cell("--audit-log=-", "--audit-max-size=1MiB"), `(flag --audit-max-size): standard output cannot be put aside`},
		{"a small audit log", cell("--audit-log=a", "--audit-max-size=1000"), `audit-max-size "1000" (flag --audit-max-size): at least 1MiB`},
		{"an odd audit log", cell("--audit-log=a", "--audit-max-size=1500KiB"), `it is a whole number of MiB`},
		{"audits that are never put aside", cell("--audit-log=a", "--audit-keep=3"), `(flag --audit-keep): files are put aside only at audit-max-size`},
		{"too many audits", cell("--audit-log=a", "--audit-max-size=1MiB", "--audit-keep=10001"), `(flag --audit-keep): at most 10000`},

		{"backups nowhere", cell("--backup-every", "1h"), `backup-every "1h0m0s" (flag --backup-every): backups need a directory`},
		{"backups never", cell("--backup-dir", "b"), `backup-dir "b" (flag --backup-dir): it is for backups by schedule`},
		{"no backups to keep", cell("--backup-keep", "2"), `backup-keep "2" (flag --backup-keep): it is for backups by schedule`},
		{"backups all the time", cell("--backup-dir", "b", "--backup-every", "999ms"), `backup-every "999ms" (flag --backup-every): at least 1s`},
		{"negative backups", cell("--backup-dir", "b", "--backup-every", "-1h"), `backup-every "-1h0m0s" (flag --backup-every): at least 1s`},
		{"backups hardly ever", cell("--backup-dir", "b", "--backup-every", "10000h"), `backup-every "10000h0m0s" (flag --backup-every): at most 8784h, or 0 for never`},
		{"a million backups", cell("--backup-dir", "b", "--backup-every", "1h", "--backup-keep", "1000000"), `at most 100000`},
		{"backups in the data directory", cell("--backup-dir", "data/b", "--backup-every", "1h"), `backup-dir "data/b" (flag --backup-dir): it is in data-dir (data)`},
		{"traces to no collector", cell("--trace-endpoint", "127.0.0.1:4318"), `trace-endpoint "127.0.0.1:4318" (flag --trace-endpoint): it is the URL of a collector, like http://127.0.0.1:4318`},
		{"traces by gRPC", cell("--trace-endpoint", "grpc://otel:4317"), `it is the URL of a collector`},
		{"a secret in the collector's URL", cell("--trace-endpoint", "http://u:secret@otel:4318"), `trace-endpoint "http://u:xxxxx@otel:4318" (flag --trace-endpoint): it must not have a secret`},
		{"traces to nobody", cell("--trace-share", "0.1"), `trace-share "0.1" (flag --trace-share): traces need a collector: give trace-endpoint as well`},
		{"more traces than calls", cell("--trace-endpoint", "http://otel:4318", "--trace-share", "10"), `trace-share "10" (flag --trace-share): at most 1`},
		{"a share that is no number", cell("--trace-endpoint", "http://otel:4318", "--trace-share", "NaN"), `at least 0`},
		{"replaced at once", cell("--auto-replace", "999ms"), `auto-replace "999ms" (flag --auto-replace): at least 1s, or 0 for never`},
		{"replaced before it is gone", cell("--auto-replace", "-1h"), `at least 1s, or 0 for never`},
		{"replaced hardly ever", cell("--auto-replace", "9000h"), `at most 8784h, or 0 for never`},
		{"refused beside a master", cell("--stale-for", "400ms"), `stale-for "400ms" (flag --stale-for): shorter than master-lease (650ms, default)`},
		{"never stale", cell("--stale-for", "0s"), `shorter than master-lease`},
		{"stale for ever", cell("--stale-for", "25h"), `stale-for "25h0m0s" (flag --stale-for): at most 24h: `},
		{"a cell of one that replaces itself", input{args: []string{"--dev", "--auto-replace", "1h"}}, `contradicts dev`},
		{"hardly any events", cell("--event-history", "0"), `event-history "0" (flag --event-history): at least 1`},
		{"hardly room for events", cell("--event-history-bytes", "1000"), `event-history-bytes "1000" (flag --event-history-bytes): at least 1KiB`},
		{"no trailing logs", cell("--trailing-logs", "0"), `trailing-logs "0" (flag --trailing-logs): at least 1`},
		{"snapshot interval", cell("--snapshot-interval", "1ms"), `snapshot-interval "1ms" (flag --snapshot-interval): at least 100ms`},
		{"shutdown time-out", cell("--shutdown-timeout", "0s"), `shutdown-timeout "0s" (flag --shutdown-timeout): at least 100ms`},

		{"quota that is no number", cell("--max-holds", "-1"), `max-holds "-1" (flag --max-holds): not a whole number of at least 0`},
		{"quota beyond reason", cell("--max-sessions", "18446744073709551615"), `max-sessions "18446744073709551615" (flag --max-sessions): at most 9223372036854775807`},
		{"size that is none", cell("--max-bytes", "1GB"), `max-bytes "1GB" (flag --max-bytes): not a size; write a whole number of bytes, or one with a unit, like 512MiB`},
		{"size beyond reason", cell("--max-bytes", "9999999999GiB"), `max-bytes "9999999999GiB" (flag --max-bytes): not a size`},
		{"too few bytes", cell("--max-bytes", "1KiB"), `max-bytes "1KiB" (flag --max-bytes): at least 256KiB, or 0 for no bound`},
		{"too few bytes for a session", file("\nmax-session-bytes: 64KiB\n"), `max-session-bytes "64KiB" (r.yaml:2): at least 256KiB`},
		{"too few connections", cell("--max-connections", "3"), `max-connections "3" (flag --max-connections): at least 16, or 0 for as many as the limit on open files leaves`},

		{"origin without a scheme", cell("--allow-origin", "ui.example.com"), `allow-origin "ui.example.com" (flag --allow-origin): "ui.example.com": it begins with http:// or https://`},
		{"origin with a path", cell("--allow-origin", "https://ui/"), `allow-origin "https://ui/" (flag --allow-origin): "https://ui/": it must have only scheme, host and port`},
		{"every origin", env("STOUTD_ALLOW_ORIGIN=http://a; *"), `allow-origin "http://a; *" (environment STOUTD_ALLOW_ORIGIN): "*" would let every web page send commands to the cell`},
		{"no origin", file("allow-origin:\n  - \"null\"\n"), `allow-origin "null" (r.yaml:1): any web page can have the origin "null"`},
		{"origin that is no text", file("allow-origin: [[a]]\n"), `allow-origin (r.yaml:1): it must be a single value`},
		{"host with a port", cell("--api-host", "stout:7101"), `api-host "stout:7101" (flag --api-host): "stout:7101" is not the name of a host`},
		{"host with a scheme", file("api-host: http://stout\n"), `api-host "http://stout" (r.yaml:1): "http://stout" is not the name of a host`},
		{"host with a wildcard", cell("--api-host", "*.example.com"), `"*.example.com" is not the name of a host`},
		{"address in brackets", cell("--api-host", "[::1]"), `localhost and addresses need not be named`},

		{"certificate without a key", secureCell("--api-key="), `api-cert "c.pem" (flag --api-cert): give api-key as well: a certificate needs its key`},
		{"key without a certificate", env("STOUTD_API_KEY=k.pem"), `api-key "k.pem" (environment STOUTD_API_KEY): give api-cert as well`},
		{"raft without a CA", cell("--raft-cert", "c.pem", "--raft-key", "k.pem"), `raft-cert "c.pem" (flag --raft-cert): give raft-ca as well: between replicas both ends show a certificate`},
		{"raft with a CA alone", cell("--raft-ca", "ca.pem"), `raft-ca "ca.pem" (flag --raft-ca): give raft-cert and raft-key as well`},
		{"client CA without TLS", secureCell("--api-cert=", "--api-key=", "--api-client-ca", "ca.pem"), `api-client-ca "ca.pem" (flag --api-client-ca): clients show certificates over TLS only; give api-cert`},
		{"client CA without TLS between replicas", secureCell("--raft-cert=", "--raft-key=", "--raft-ca=", "--api-client-ca", "ca.pem"), `api-client-ca "ca.pem" (flag --api-client-ca): a replica that forwards a call reports its caller: without TLS between replicas any program could do so`},
		{"dev with a client CA", input{args: []string{"--dev", "--api-cert", "c.pem", "--api-key", "k.pem", "--api-client-ca", "ca.pem"}}, `give raft-cert, raft-key and raft-ca as well`},
		{"client certificates without a CA", secureCell("--api-client-auth", "required"), `api-client-auth "required" (flag --api-client-auth): it needs api-client-ca`},
		{"client certificates in another way", secureCell("--api-client-ca", "ca.pem", "--api-client-auth", "maybe"), `api-client-auth "maybe" (flag --api-client-auth): it is one of none, optional, required`},
		{"http where https is spoken", cell("--api-cert", "c.pem", "--api-key", "k.pem"), `replica "r2=127.0.0.1:7202,http://127.0.0.1:7102" (flag --replica): with api-cert the API speaks https only`},

		{"JWTs without an audience", cell("--jwt-keys", "keys.json", "--jwt-issuer", "https://id.example.com"), `jwt-issuer "https://id.example.com" (flag --jwt-issuer): give jwt-audience as well: a JWT needs a signature`},
		{"JWTs without keys", cell("--jwt-issuer", "a", "--jwt-audience", "b"), `jwt-issuer "a" (flag --jwt-issuer): give jwt-keys as well`},
		{"keys of JWTs alone", env("STOUTD_JWT_KEYS=keys.json"), `jwt-keys "keys.json" (environment STOUTD_JWT_KEYS): give jwt-issuer and jwt-audience as well`},
		{"a claim without JWTs", cell("--jwt-claim", "email"), `jwt-claim "email" (flag --jwt-claim): it has a use only with jwt-issuer, jwt-audience and jwt-keys`},
		{"no claim", jwts("--jwt-claim="), `jwt-claim (flag --jwt-claim): it is the name of a claim; leave it out for sub`},
		{"a claim that names nobody", jwts("--jwt-claim", "iss"), `jwt-claim "iss" (flag --jwt-claim): that claim does not name the bearer of the token`},
		{"a prefix without JWTs", cell("--jwt-prefix", "jwt:"), `jwt-prefix "jwt:" (flag --jwt-prefix): it has a use only with jwt-keys`},
		{"a prefix without certificates", jwts("--certificate-prefix", "cert:"), `certificate-prefix "cert:" (flag --certificate-prefix): it has a use only with api-client-ca`},
		{"a prefix with a space", jwts("--jwt-prefix", "jwt "), `jwt-prefix "jwt " (flag --jwt-prefix): names of principals begin with it`},
		{"a prefix of two lines", jwts("--jwt-prefix", "a\nb"), `names of principals begin with it`},
		{"a prefix that is not seen", jwts("--jwt-prefix", "a\u200b"), `names of principals begin with it`},
		{"a prefix too long", jwts("--jwt-prefix", strings.Repeat("a", maxPrefix+1)), `it has 65 bytes; at most 64 are allowed, to leave 192 for the name behind it`},
		{"a prefix of the root", jwts("--jwt-prefix", "ro"), `jwt-prefix "ro" (flag --jwt-prefix): user:root begins with it, and belongs to a token`},
		{"the root for a prefix", jwts("--jwt-prefix", "root"), `user:root begins with it`},
		{"one prefix of two, of certificates", proved("--certificate-prefix", "cert:"), `certificate-prefix "cert:" (flag --certificate-prefix): give jwt-prefix as well: without it a name from the other source can also begin with "cert:"`},
		{"one prefix of two, of JWTs", proved("--jwt-prefix", "jwt:"), `jwt-prefix "jwt:" (flag --jwt-prefix): give certificate-prefix as well`},
		{"the same prefix twice", proved("--certificate-prefix", "x:", "--jwt-prefix", "x:"), `jwt-prefix "x:" (flag --jwt-prefix): it begins with certificate-prefix ("x:")`},
		{"a prefix that begins with the other", proved("--certificate-prefix", "x:y", "--jwt-prefix", "x:"), `certificate-prefix "x:y" (flag --certificate-prefix): it begins with jwt-prefix ("x:"), so a JWT and a certificate could prove the same principal`},
		{"an issuer and a space", jwts("--jwt-issuer", "a "), `jwt-issuer "a " (flag --jwt-issuer): it is compared exactly`},
		{"an audience of two lines", jwts("--jwt-audience", "a\nb"), `jwt-audience "a\nb" (flag --jwt-audience): it is compared exactly`},

		{"log level", cell("--log-level", "loud"), `log-level "loud" (flag --log-level): it is one of trace, debug, info, warn, error`},
		{"log store", cell("--log-store", "memory"), `log-store "memory" (flag --log-store): it is one of bolt, wal`},
		{"log format", cell("--log-format", "xml"), `log-format "xml" (flag --log-format): it is one of json, console`},

		{"listen without a port", cell("--api-listen", "localhost"), `api-listen "localhost" (flag --api-listen): not of the form host:port`},
		{"port out of range", cell("--raft-listen", ":70000"), `raft-listen ":70000" (flag --raft-listen): port "70000" is not a number within 0..65535`},
		{"port 0", cell("--api-listen", ":0"), `api-listen ":0" (flag --api-listen): port 0`},
		{"one address twice", cell("--raft-listen", "127.0.0.1:7101"), `raft-listen "127.0.0.1:7101" (flag --raft-listen): api-listen has the same address`},

		{"no replicas", input{args: threeReplicas[:6]}, `replica: it is required: id=host:port,http://host:port of each replica of the cell, this one included (or --join, to join a running cell); give --replica, STOUTD_REPLICA, or replicas in the file`},
		{"replica without an address", with("r4"), `replica "` /* the whole list is the value */},
		{"replica with a bad id", with("r 4=h:1,http://h:2"), `replica "r 4=h:1,http://h:2" (flag --replica): id "r 4": a name is`},
		{"replica with a bad raft address", with("r4=h,http://h:2"), `raft address "h": not of the form host:port`},
		{"replica that nobody can dial", with("r4=0.0.0.0:1,http://h:2"), `raft address "0.0.0.0:1": others must be able to dial it`},
		{"replica without a scheme", with("r4=h:1,h:2"), `API URL "h:2": it begins with http:// or https://`},
		{"replica with a path in its URL", with("r4=h:1,http://h:2/v1"), `API URL "http://h:2/v1": it is scheme, host and port only`},
		{"replica with a bad URL", with("r4=h:1,http://h:x"), `API URL "http://h:x": not a URL`},
		{"replica whose URL has no host", with("r4=h:1,http://:2"), `API URL "http://:2": clients must be able to dial it`},
		{"id twice", with("r1=h:1,http://h:2"), `replica "r1=h:1,http://h:2" (flag --replica): another entry has the same id: r1=127.0.0.1:7201`},
		{"raft address twice", with("r4=127.0.0.1:7201,http://h:2"), `another entry has the same raft address`},
		{"API URL twice", with("r4=h:1,http://127.0.0.1:7101/"), `another entry has the same API URL`},

		{"dev with a cell", input{args: []string{"--dev", "--cell", "x"}}, `cell "x" (flag --cell): contradicts dev`},
		{"dev with an id", input{args: []string{"--dev", "--id", "x"}}, `id "x" (flag --id): contradicts dev`},
		{"dev with a directory", input{args: []string{"--dev", "--data-dir", "x"}}, `data-dir "x" (flag --data-dir): contradicts dev`},
		{"dev with replicas", input{args: []string{"--dev", "--replica", "r1=h:1,http://h:2"}}, `replica (flag --replica): contradicts dev`},
		{"dev with a cell from the environment", input{args: []string{"--dev"}, env: []string{"STOUTD_CELL=x"}}, `cell "x" (environment STOUTD_CELL): contradicts dev`},

		{"unknown variable", env("STOUTD_LEASE=1s"), `STOUTD_LEASE "1s" (environment): no setting has this name; did you mean STOUTD_MASTER_LEASE?`},
		{"variable that stands for a required one", input{args: threeReplicas[2:], env: []string{"STOUTD_CEL=x"}}, `did you mean STOUTD_CELL?`},
		{"variable like no other", env("STOUTD_COLOUR=1"), "STOUTD_COLOUR \"1\" (environment): no setting has this name; `stoutd --help` lists them"},
		{"variable of Kubernetes", env("STOUTD_SERVICE_HOST=10.0.0.1"), `enableServiceLinks: false`},

		{"file that is not there", cell("--config", "nowhere.yaml"), `config "nowhere.yaml" (flag --config): there is no such file`},
		{"file from the environment", env("STOUTD_CONFIG=nowhere.yaml"), `config "nowhere.yaml" (environment STOUTD_CONFIG): there is no such file`},
		{"file that is too large", file(strings.Repeat("#", maxFile) + "\n"), `it is larger than 1MiB`},
		{"file that is not there, and nothing else", input{args: []string{"--config", "nowhere.yaml"}}, `there is no such file`},
		{"file that is not YAML, and nothing else", input{file: "cell: [\n"}, `not YAML`},
		{"file that is not YAML", file("cell: [\n"), `not YAML`},
		{"file that is a list", file("- cell\n"), `(r.yaml:1): it must be a mapping of settings`},
		{"file of two documents", file("log-level: info\n---\nlog-level: info\n"), `it has 2 documents; it must have one`},
		{"unknown key", file("log-level: info\nmaster_lease: 1s\n"), `master_lease (r.yaml:2): no setting has this name; did you mean master-lease?`},
		{"key that stands for a required one", input{args: threeReplicas[:6], file: "replica-list: x\n"}, `replica-list (r.yaml:1): no setting has this name; did you mean replicas?`},
		{"key that stands for the directory", input{args: append(append([]string{}, threeReplicas[:4]...), threeReplicas[6:]...), file: "datadir: x\n"}, `did you mean data-dir?`},
		{"key twice", file("log-level: info\nlog-level: info\n"), `already defined`},
		{"key without a value", file("log-level:\n"), `log-level (r.yaml:1): it has no value`},
		{"list for a value", file("log-level: [info]\n"), `log-level (r.yaml:1): it must be a single value`},
		{"replica for replicas", file("replica: x\n"), `replica (r.yaml:1): in a file the key is replicas`},
		{"replicas that are no list", file("replicas: r1\n"), `replica (r.yaml:1): replicas is a list`},
		{"replica that is no object", file("replicas:\n  - r1\n"), `replica "r1" (r.yaml:2): an entry of replicas has id, raft and api`},
		{"unknown key of a replica", file("replicas:\n  - id: r1\n    url: x\n"), `replica "url" (r.yaml:3): an entry of replicas has id, raft and api, and no other key`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.in)
			if err == nil {
				t.Fatalf("accepted; want %s", test.want)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error:  %v\nwant:   %s", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("one fault makes several problems: %v", err)
			}
		})
	}
}
