package embed

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/client"
)

func TestSecretsOfFiles(t *testing.T) {
	secret := "stout_" + strings.Repeat("a1", 16)
	sum := sha256.Sum256([]byte(secret))
	for content, fine := range map[string]bool{
		secret: true, secret + "\n": true, " " + secret + "\r\n": true,
		"": false, "\n": false, secret[:len(secret)-1]: false, "Stout_" + secret[6:]: false,
		secret + " x": false, secret + "\n" + secret: false, secret + "\x00": false, secret + "é": false,
	} {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readSecret("found-token-file", file)
		switch {
		case fine && (err != nil || *got != sum):
			t.Errorf("%q: %v", content, err)
		case !fine && (err == nil || !strings.Contains(err.Error(), "found-token-file") || !strings.Contains(err.Error(), file)):
			t.Errorf("%q: %x, %v", content, got, err)
		case !fine && len(content) > 20 && strings.Contains(err.Error(), content[6:20]):
			t.Errorf("the error has a part of the secret: %v", err)
		}
	}
	if got, err := readSecret("found-token-file", ""); got != nil || err != nil {
		t.Errorf("without a file: %x, %v", got, err)
	}
	if _, err := readSecret("found-token-file", filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "found-token-file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestFoundTokenIsGone: a replica of a cell starts after the file with the founding
// token was deleted, and access stays on. A new directory is refused and stays empty.
func TestFoundTokenIsGone(t *testing.T) {
	c := cellOf(t, 1)[0]
	c.FoundTokenFile = filepath.Join(t.TempDir(), "root.token")
	_, err := Start(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "found-token-file: open "+c.FoundTokenFile) || !strings.Contains(err.Error(), "if the cell exists, remove the setting") {
		t.Errorf("a new directory without the file: %v", err)
	}
	if left, err := os.ReadDir(c.DataDir); err != nil || len(left) > 0 {
		t.Errorf("it has %v, %v", left, err)
	}
	if err := os.WriteFile(c.FoundTokenFile, []byte("stout_"+strings.Repeat("a1", 16)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		var log lines
		c.Stderr = &log
		r := start(t, c)
		ready(t, r)
		anonymous, err := client.New(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := anonymous.NewSession(t.Context()); !errors.Is(err, client.ErrUnauthenticated) {
			t.Errorf("start %d: access is off: %v", i, err)
		}
		stop(t, r)
		if says := strings.Contains(log.String(), "found-token-file is missing"); says != (i == 1) {
			t.Errorf("start %d: %s", i, &log)
		}
		_ = os.Remove(c.FoundTokenFile)
	}
}

// TestEnableSecret: each start makes a new secret, in a file that others cannot read.
// If the file cannot be written there is no secret.
func TestEnableSecret(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "enable.secret")
	var last string
	for range 2 {
		secret := newEnableSecret(dir, zerolog.Nop())
		content, err := os.ReadFile(file)
		if err != nil || len(secret) != 64 || secret == last || string(content) != secret+"\n" {
			t.Errorf("%q after %q; %q, %v", secret, last, content, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		last = secret
	}
	var log lines
	if secret := newEnableSecret(filepath.Join(dir, "none"), zerolog.New(&log)); secret != "" || !strings.Contains(log.String(), "enable.secret") {
		t.Errorf("%q: %s", secret, &log)
	}
}
