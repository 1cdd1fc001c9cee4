//go:build unix

package recipe_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/test/cell"
)

// TestConfig: every good value arrives, over changes of master and a way that
// was cut, and what is no good leaves the last good one.
func TestConfig(t *testing.T) {
	ctx, path := cell.Bounded(t), newPath()
	m, writer := newMachine(t), newCell()
	limit, err := recipe.FollowConfig(ctx, m.Client, path, 10, func(b []byte) (int, error) { return strconv.Atoi(string(b)) })
	if err != nil {
		t.Fatal(err)
	}
	wait := func(value int, failed error) {
		t.Helper()
		for {
			changed := limit.Changed()
			if err := limit.Err(); limit.Value() == value && (err == nil) == (failed == nil) && (failed == nil || errors.Is(err, failed)) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("the value is %d, %v; wanted %d, %v", limit.Value(), limit.Err(), value, failed)
			}
		}
	}
	put := func(content string) uint64 {
		t.Helper()
		stat, err := writer.Put(ctx, path, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		return stat.Revision
	}
	wait(10, client.ErrNotFound)
	put("20")
	wait(20, nil)
	good := put("21")
	wait(21, nil)
	if got := limit.Revision(); got != good {
		t.Errorf("revision %d; it was written at %d", got, good)
	}
	put("a lot")
	wait(21, strconv.ErrSyntax)
	if _, err := writer.Put(ctx, path+"0", []byte("99")); err != nil { // somebody else's
		t.Fatal(err)
	}
	killMaster(t)
	put("22")
	wait(22, nil)
	m.way.cut()
	put("23")
	put("24")
	m.way.mend()
	wait(24, nil)
	if _, err := writer.Delete(ctx, path); err != nil {
		t.Fatal(err)
	}
	wait(24, client.ErrNotFound)
}
