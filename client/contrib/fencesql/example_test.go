//go:build unix

package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/stoutlock/stout/client/fence"
)

// Guard a table. The caller takes the token from its hold.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE balance (euros INTEGER)"); err != nil {
		log.Fatal(err)
	}
	guard, err := fence.NewSQL(fence.SQLite, "stout_fence")
	if err != nil {
		log.Fatal(err)
	}
	if err := guard.Create(ctx, db); err != nil {
		log.Fatal(err)
	}
	write := func(token uint64, euros int) error { // held.Token()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := guard.Check(ctx, tx, "/billing/leader", token); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO balance VALUES (?)", euros); err != nil {
			return err
		}
		return tx.Commit()
	}
	fmt.Println(write(41, 10), write(42, 20))
	fmt.Println("late:", errors.Is(write(41, 30), fence.ErrStale))
	var sum int
	err = db.QueryRow("SELECT SUM(euros) FROM balance").Scan(&sum)
	fmt.Println(sum, err)
	// Output:
	// <nil> <nil>
	// late: true
	// 30 <nil>
}
