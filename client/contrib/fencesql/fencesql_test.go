//go:build unix

package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/client/fence"
)

// begin starts a transaction that is rolled back at the end of the test.
func (e engine) begin(t *testing.T, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := e.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// write makes a guarded transaction that adds a row.
func (e engine) write(ctx context.Context, resource string, token uint64) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := e.guard.Check(ctx, tx, resource, token); err != nil {
		return err
	}
	if err := add(ctx, tx, token); err != nil {
		return err
	}
	return tx.Commit()
}

// add adds a row, numbered in the order of the transactions.
func add(ctx context.Context, tx *sql.Tx, token uint64) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO data (n, token) SELECT COUNT(*), %d FROM data", token))
	return err
}

// tokens returns the tokens of the rows, in order.
func (e engine) tokens(t *testing.T) (tokens []uint64) {
	t.Helper()
	rows, err := e.db.QueryContext(t.Context(), "SELECT token FROM data ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var token uint64
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// TestLateWriter: a lower token is refused, and its transaction leaves nothing
// behind. Resources are independent, to the byte.
func TestLateWriter(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		for _, c := range []struct {
			resource string
			token    uint64
			highest  uint64 // of a refusal
		}{
			{"/db", 5, 0},
			{"/db", 5, 0},
			{"/db", 6, 0},
			{"/db", 5, 6},
			{"/db", 6, 0},
			{"/DB", 1, 0},
			{"/db ", 1, 0},
			{"/dé", 1, 0},
			{"/de", 1, 0},
			{"/db", 1<<53 - 1, 0},
			{"/db", 6, 1<<53 - 1},
		} {
			before := len(e.tokens(t))
			err := e.write(t.Context(), c.resource, c.token)
			added := len(e.tokens(t)) - before
			if c.highest == 0 {
				if err != nil || added != 1 {
					t.Errorf("%q with token %d: %v, %d rows", c.resource, c.token, err, added)
				}
				continue
			}
			stale, ok := errors.AsType[*fence.StaleError](err)
			if !ok || *stale != (fence.StaleError{Resource: c.resource, Token: c.token, Highest: c.highest}) || added != 0 {
				t.Errorf("%q with token %d: %v, %d rows", c.resource, c.token, err, added)
			}
		}
		for resource, token := range map[string]uint64{"": 1, "/x\x00": 1, "/db": 0} {
			if err := e.write(t.Context(), resource, token); err == nil {
				t.Errorf("%q with token %d was accepted", resource, token)
			}
		}
	})
}

// TestLateSnapshot: a transaction that has read before the next holder wrote is
// refused. Transactions of SQLite, as these tests begin them, do not overlap.
func TestLateSnapshot(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
		t.Run(level.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				if strings.HasSuffix(t.Name(), "SQLite") {
					t.Skip("its transactions do not overlap")
				}
				if err := e.write(t.Context(), "/db", 5); err != nil {
					t.Fatal(err)
				}
				late := e.begin(t, level)
				var token uint64
				if err := late.QueryRowContext(t.Context(), "SELECT MAX(token) FROM stout_fence").Scan(&token); err != nil || token != 5 {
					t.Fatal(token, err)
				}
				if err := e.write(t.Context(), "/db", 6); err != nil {
					t.Fatal(err)
				}
				switch err := e.guard.Check(t.Context(), late, "/db", 5); {
				case err == nil:
					t.Error("a late write was accepted")
				case !errors.Is(err, fence.ErrStale) && !strings.Contains(err.Error(), "could not serialize"):
					t.Error(err)
				}
			})
		})
	}
}

// TestWriteUnderWay: after one holder's Check and before its commit, the next
// holder's Check waits.
func TestWriteUnderWay(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		if err := e.write(t.Context(), "/db", 4); err != nil {
			t.Fatal(err)
		}
		old := e.begin(t, sql.LevelDefault)
		if err := e.guard.Check(t.Context(), old, "/db", 5); err != nil {
			t.Fatal(err)
		}
		var committing atomic.Bool
		next := make(chan error, 1)
		go func() {
			tx, err := e.db.BeginTx(t.Context(), nil)
			if err != nil {
				next <- err
				return
			}
			defer tx.Rollback()
			if err = e.guard.Check(t.Context(), tx, "/db", 6); err == nil {
				if !committing.Load() {
					t.Error("the next holder did not wait")
				}
				if err = add(t.Context(), tx, 6); err == nil {
					err = tx.Commit()
				}
			}
			next <- err
		}()
		if err := add(t.Context(), old, 5); err != nil {
			t.Fatal(err)
		}
		committing.Store(true)
		if err := old.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-next; err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.tokens(t)); got != "[4 5 6]" {
			t.Error(got)
		}
	})
}

// TestConcurrentWriters: tokens only rise in the order of the commits, and every
// write with the last token succeeds.
func TestConcurrentWriters(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		var writers sync.WaitGroup
		for i := range 24 {
			writers.Go(func() {
				token := uint64(i*5%24/4 + 1)
				for try := 0; ; try++ {
					err := e.write(t.Context(), "/db", token)
					switch {
					case errors.Is(err, fence.ErrStale) && token < 6 || err == nil:
						return
					case errors.Is(err, fence.ErrStale) || try == 20:
						t.Errorf("token %d, try %d: %v", token, try, err)
						return
					}
				}
			})
		}
		writers.Wait()
		tokens, last := e.tokens(t), 0
		for i, token := range tokens {
			if i > 0 && token < tokens[i-1] {
				t.Fatalf("tokens %v", tokens)
			}
			if token == 6 {
				last++
			}
		}
		if last != 4 {
			t.Errorf("%d of 4 writes with the last token: %v", last, tokens)
		}
	})
}
