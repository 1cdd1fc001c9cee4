package recipe_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
)

// TestConfig: every valid value arrives, through changes of master and a
// network cut. An invalid value leaves the last valid one.
func TestConfig(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		m, writer := c.Client(), c.Client()
		limit, err := recipe.FollowConfig(ctx, m, path, 10, func(b []byte) (int, error) { return strconv.Atoi(string(b)) })
		must(t, err)
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
			must(t, err)
			return stat.Revision
		}
		wait(10, client.ErrNotFound)
		put("20")
		wait(20, nil)
		good := put("21")
		wait(21, nil)
		wantEqual(t, "revision", limit.Revision(), good)
		put("a lot")
		wait(21, strconv.ErrSyntax)
		if _, err := writer.Put(ctx, path+"0", []byte("99")); err != nil { // another file
			t.Fatal(err)
		}
		c.KillMaster()
		put("22")
		wait(22, nil)
		c.Cut(m)
		put("23")
		put("24")
		c.Mend(m)
		wait(24, nil)
		must(t, second(writer.Delete(ctx, path)))
		wait(24, client.ErrNotFound)
	})
}

// TestConfigAfterRefusal: after its events were refused for a while, or are no
// longer kept, a value is followed again.
func TestConfigAfterRefusal(t *testing.T) {
	inCellOf(t, stouttest.Options{Events: 5}, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		m, meddler := newMeddled(c)
		refuse, refused := noEvents()
		meddler.set(refuse)
		limit, err := recipe.FollowConfig(ctx, m, path, 10, func(b []byte) (int, error) { return strconv.Atoi(string(b)) })
		must(t, err)
		wait := func(value int) {
			t.Helper()
			for limit.Value() != value || limit.Err() != nil {
				pause(t, ctx, "the value is "+strconv.Itoa(value))
			}
		}
		put := func(path, content string) {
			t.Helper()
			must(t, second(c.Client().Put(ctx, path, []byte(content))))
		}
		<-refused
		put(path, "20")
		meddler.set(nil)
		wait(20)
		c.Cut(m)
		put(path, "30")
		for range 10 {
			put("/other", "")
		}
		c.Mend(m)
		wait(30)
	})
}
