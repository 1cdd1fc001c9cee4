package certs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// order makes the files of an order in a new directory and returns the directory.
func order(t *testing.T, o Order) string {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "certs")
	if o.Ends.IsZero() {
		o.Ends = time.Now().AddDate(1, 0, 0)
	}
	if _, err := o.Make(); err != nil {
		t.Fatal(err)
	}
	return o.Dir
}

// r1 is an order for the replica r1.
var r1 = Order{Replicas: []Replica{{ID: "r1", Hosts: []string{"127.0.0.1"}}}}

// filesOf returns the files for a name in a directory.
func filesOf(dir, name string) Files {
	at := func(file string) string { return filepath.Join(dir, file) }
	return Files{Cert: at(name + ".pem"), Key: at(name + "-key.pem"), CA: at("ca.pem")}
}

// put copies files from one directory to another.
func put(t *testing.T, to, from string, names ...string) {
	t.Helper()
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
