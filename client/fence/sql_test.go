package fence_test

import (
	"errors"
	"testing"

	"github.com/stoutlock/stout/client/fence"
	"github.com/stoutlock/stout/lockapi"
)

// TestNewSQL: the name of a table goes into the statements, so it must be one.
// The module client/contrib tests the statements in databases.
func TestNewSQL(t *testing.T) {
	for _, table := range []string{"fence", "ops.stout_fence", "_1"} {
		if _, err := fence.NewSQL(fence.PostgreSQL, table); err != nil {
			t.Errorf("%q: %v", table, err)
		}
	}
	for _, table := range []string{"", ".", "a.", ".a", "a.b.c", "1a", "a b", "a;b", `"a"`, "tablé", "x'--"} {
		if _, err := fence.NewSQL(fence.PostgreSQL, table); !errors.Is(err, lockapi.CodeInvalidArgument) {
			t.Errorf("%q: %v", table, err)
		}
	}
	for _, d := range []fence.Dialect{-1, fence.SQLite + 1} {
		if _, err := fence.NewSQL(d, "fence"); !errors.Is(err, lockapi.CodeInvalidArgument) {
			t.Errorf("dialect %d: %v", d, err)
		}
	}
}
