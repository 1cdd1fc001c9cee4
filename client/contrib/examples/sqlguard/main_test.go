package main

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/client/stouttest"
)

func TestGuard(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out strings.Builder
	if err := run(t.Context(), stouttest.New(t, stouttest.Options{}).Client(), db, &out); err != nil {
		t.Fatal(err)
	}
	if want := "second: <nil>\nfirst is refused: true\n"; out.String() != want {
		t.Errorf("it says\n%swant\n%s", out.String(), want)
	}
	var holders string
	if err := db.QueryRow("SELECT group_concat(holder) FROM entries").Scan(&holders); err != nil || holders != "second" {
		t.Errorf("the entries are %q, %v", holders, err)
	}
}
