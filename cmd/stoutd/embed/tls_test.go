package embed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/certs"
)

// TestNotesOfCertificates: the log has changes of the files, with file and date, and
// never a key.
func TestNotesOfCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	if _, err := (certs.Order{Dir: dir, Replicas: []certs.Replica{{ID: "r1", Hosts: []string{"127.0.0.1"}}}, Ends: time.Now().AddDate(1, 0, 0)}).Make(); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	source, err := certs.Open(certs.Files{Cert: at("r1.pem"), Key: at("r1-key.pem"), CA: at("ca.pem")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]certs.Notice{
		`"level":"info","use":"raft","cert":"` + at("r1.pem"): {Taken: true},
		`"level":"error","use":"raft","error":"why"`:          {Refused: fmt.Errorf("why")},
		`"level":"warn","use":"raft","file":"` + at("r1.pem"): {Ends: time.Now().Add(49 * time.Hour)},
		`"days":2.04`: {Ends: time.Now().Add(49 * time.Hour)},
		`"message":"the last CA in this file expires soon"`:    {Ends: time.Now().Add(time.Hour), OfCAs: true},
		`"level":"error","use":"raft","file":"` + at("ca.pem"): {Ends: time.Now().Add(-time.Hour), OfCAs: true},
		`"message":"the certificate in this file has expired"`: {Ends: time.Now().Add(-time.Hour)},
		`the previous certificates remain in force`:            {Refused: fmt.Errorf("why")},
	} {
		var out bytes.Buffer
		note(zerolog.New(&out), "raft", source, n)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%+v is logged as %s, want %s", n, &out, want)
		}
	}
	if err := os.Chmod(at("r1-key.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out lines
	security{raft: source}.watch(ctx, zerolog.New(&out))
	if !strings.Contains(out.String(), "every user of this machine can read this private key") {
		t.Errorf("a key that every user can read: %s", &out)
	}
	for host, want := range map[string]bool{"127.0.0.1:7101": false, "10.0.0.1:7101": true} {
		var out lines
		security{api: source, raft: source, url: "https://" + host}.watch(ctx, zerolog.New(&out))
		if strings.Contains(out.String(), `"error":"x509: certificate is valid for 127.0.0.1, ::1, not 10.0.0.1","message":"clients refuse this replica`) != want {
			t.Errorf("at %s: %s", host, &out)
		}
	}
	var again bytes.Buffer
	note(zerolog.New(&again), "raft", source, certs.Notice{Taken: true})
	if !strings.Contains(again.String(), "every user of this machine can read this private key") {
		t.Errorf("a new key that every user can read: %s", &again)
	}
}
