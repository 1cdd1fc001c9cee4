package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/test/cell"
)

// tokenFile holds the root token of the cell in dir. curlFile holds curl's
// options with that token, because everybody on the machine can see secrets on
// a command line.
func tokenFile(dir string) string { return filepath.Join(dir, "root.token") }
func curlFile(dir string) string  { return filepath.Join(dir, "curl.conf") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// rootToken returns the file of the root token that the cell in dir is founded
// with. It is empty for a cell that was founded without a token.
func rootToken(dir string) (string, error) {
	path := tokenFile(dir)
	if exists(path) {
		return path, nil
	}
	if exists(filepath.Join(dir, "r1")) {
		return "", nil
	}
	secret, _ := admin.NewSecret()
	return path, newFile(path, secret+"\n")
}

func writeCurl(c *cell.Cell, token string) error {
	var text strings.Builder
	for _, one := range [][2]string{{"cacert", "ca.pem"}, {"cert", secureClient + ".pem"}, {"key", secureClient + "-key.pem"}} {
		fmt.Fprintf(&text, "%s = %q\n", one[0], c.Cert(one[1]))
	}
	if token != "" {
		secret, err := os.ReadFile(token)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "header = \"Authorization: Bearer %s\"\n", strings.TrimSpace(string(secret)))
	}
	return newFile(curlFile(c.Dir()), text.String())
}

// newFile writes a file that only its owner can read. It replaces an existing
// one.
func newFile(path, text string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
