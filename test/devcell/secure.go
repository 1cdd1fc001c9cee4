package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/test/cell"
)

// tokenFile has the root's token of the cell in a directory, and curlFile what curl is
// to send to it: secrets on a command line are seen by everybody on the machine.
func tokenFile(dir string) string { return filepath.Join(dir, "root.token") }
func curlFile(dir string) string  { return filepath.Join(dir, "curl.conf") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// rootToken is the file of the root's token with which the cell in dir is founded. A
// cell that was founded without one has none: empty.
func rootToken(dir string) (string, error) {
	path := tokenFile(dir)
	if exists(path) {
		return path, nil
	}
	if exists(filepath.Join(dir, "r1")) {
		return "", nil
	}
	secret, _ := client.NewSecret()
	return path, newFile(path, secret+"\n")
}

// writeCurl writes the file of curl's settings.
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

// newFile writes a file that nobody else can read, in place of one that is there.
func newFile(path, text string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
