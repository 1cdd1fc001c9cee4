package main

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
			t.Errorf("the error tells of the secret: %v", err)
		}
	}
	if got, err := readSecret("found-token-file", ""); got != nil || err != nil {
		t.Errorf("without a file: %x, %v", got, err)
	}
	if _, err := readSecret("found-token-file", filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "found-token-file") {
		t.Errorf("a file that is not there: %v", err)
	}
}
