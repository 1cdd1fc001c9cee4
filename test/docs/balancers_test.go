package docs

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/internal/docs"
)

// TestLoadBalancers runs each balancer of docs/load-balancers.md before a cell, if this
// machine has the program.
func TestLoadBalancers(t *testing.T) {
	blocks, err := docs.Blocks("../..", "docs/load-balancers.md")
	must(t, err)
	ran := 0
	for _, b := range blocks {
		if !strings.HasSuffix(b.By, " TestLoadBalancers") {
			continue
		}
		ran++
		t.Run(b.Lang, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(b.Lang)
			if err != nil {
				t.Skipf("this machine has no %s", b.Lang)
			}
			t.Run("cell", func(t *testing.T) { beforeCell(t, program, b) })
			t.Run("no retries", func(t *testing.T) { sendsOnce(t, program, b) })
		})
	}
	if ran != 2 {
		t.Errorf("the page shows %d balancers", ran)
	}
}

// beforeCell makes calls, waits and streams through a balancer, also after a replica
// has died.
func beforeCell(t *testing.T, program string, b docs.Block) {
	r := newReader(t, own(t))
	r.cell(t, docs.Block{Page: b.Page, Line: b.Line, Text: makeRun})
	r.env = append(r.env, "LB="+r.balancer(t, program, b, r.instead))
	r.do(t, docs.Block{Page: b.Page, Line: b.Line, Says: []string{`"held_ms":`, `"state":"held"`, `{"valid":true}`, "a/b c"}, Text: `
until curl -s $LB/readyz | grep -q '"ready"'; do sleep 0.1; done
id=$(curl -s -d '{"ttl_ms":60000}' $LB/v1/sessions | sed 's/.*"id":"\([^"]*\)".*/\1/')
curl -s -d '{"wait_ms":1000}' $LB/v1/sessions/$id/keepalive
curl -s -X PUT -d "{\"session\":\"$id\"}" $LB/v1/locks/balanced%2Fjob | tee lock
curl -s "$LB/v1/sequencers?value=$(sed 's/.*"sequencer":"\([^"]*\)".*/\1/' lock)"
curl -s -X PUT -d 'a/b c' $LB/v1/files/balanced/a%20b && curl -s $LB/v1/files/balanced%2Fa%20b
`})
	stream := docs.Block{Page: b.Page, Line: b.Line, Until: true, Says: []string{"event: file_created", "event: file_changed"}, Text: `
curl -sN -H 'Accept: text/event-stream' "$LB/v1/events?prefix=/streamed&after=1" > stream &
curl -s -X PUT -d 1 $LB/v1/files/streamed
until grep file_created stream; do sleep 0.1; done
curl -s -X PUT -d 2 $LB/v1/files/streamed
until grep file_changed stream; do sleep 0.1; done
sleep 1000
`}
	r.do(t, stream)
	r.do(t, docs.Block{Page: b.Page, Line: b.Line, Says: []string{"without r1"}, Text: `
kill -9 $PID_R1
until curl -s -X PUT -d 'without r1' $LB/v1/files/left | grep -q '"revision"' && curl -s $LB/v1/files/left | grep 'without r1'; do sleep 0.1; done
`})
}

// sendsOnce checks that a balancer does not send a request again which a replica has
// received and not answered.
func sendsOnce(t *testing.T, program string, b docs.Block) {
	var got atomic.Int32
	replica := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			return
		case "/ready":
			fmt.Fprint(w, "yes")
		default:
			got.Add(1)
			panic(http.ErrAbortHandler)
		}
	})
	var pairs []string
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		s := &http.Server{Handler: replica}
		go s.Serve(l)
		t.Cleanup(func() { s.Close() })
		pairs = append(pairs, fmt.Sprintf("10.0.0.%d:7101", i+1), l.Addr().String())
	}
	r := &reader{dir: t.TempDir(), elsewhere: t.TempDir(), env: environment(nil), instead: strings.NewReplacer(pairs...)}
	t.Cleanup(func() { r.endAll(t) })
	lb := r.balancer(t, program, b, r.instead)
	r.do(t, docs.Block{Page: b.Page, Line: b.Line, Text: "until curl -s " + lb + "/ready | grep -q yes; do sleep 0.1; done\n"})
	for n, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+lb+"/v1/locks/a", strings.NewReader("{}"))
		must(t, err)
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadGateway {
				t.Errorf("%s: the status is %d", method, resp.StatusCode)
			}
		}
		if now := int(got.Load()); now != n+1 {
			t.Fatalf("%s: the replicas got %d requests after %d calls", method, now, n+1)
		}
	}
}

// balancer starts a balancer with the shown configuration, and returns its address.
func (r *reader) balancer(t *testing.T, program string, b docs.Block, instead *strings.Replacer) string {
	t.Helper()
	port, dir := freePorts(t, 1), t.TempDir()
	text, command := instead.Replace(strings.ReplaceAll(b.Text, "7100", fmt.Sprint(port))), ""
	switch b.Lang {
	case "nginx":
		var temp strings.Builder
		for _, of := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			fmt.Fprintf(&temp, "%s_temp_path %s;\n", of, filepath.Join(dir, of))
		}
		text = fmt.Sprintf("daemon off;\nmaster_process off;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n", dir, &temp, text)
		command = "%[1]s -t -e stderr -c %[2]s && exec %[1]s -e stderr -c %[2]s\n"
	case "haproxy":
		command = "%[1]s -c -f %[2]s && exec %[1]s -db -f %[2]s\n"
	default:
		t.Fatalf("%s: unknown balancer %q", b.Place(), b.Lang)
	}
	name := filepath.Join(dir, "conf")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	r.start(t, docs.Block{Page: b.Page, Line: b.Line, Text: fmt.Sprintf(command, program, name)})
	return fmt.Sprintf("127.0.0.1:%d", port)
}
