// Command sqlguard shows how a database refuses the late write of a former holder.
//
//	sqlguard FILE
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/fence"
	_ "modernc.org/sqlite"
)

const path = "/examples/sqlguard"

func main() {
	cell, errCell := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	db, errOpen := sql.Open("sqlite", os.Args[1])
	if err := errors.Join(errCell, errOpen); err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), cell, db, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run has two holders. A write of the first arrives after one of the second.
func run(ctx context.Context, cell *client.Client, db *sql.DB, out io.Writer) error {
	guard, err := fence.NewSQL(fence.SQLite, "stout_fence")
	if err == nil {
		err = guard.Create(ctx, db)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS entries (holder TEXT)")
	}
	if err != nil {
		return err
	}
	session, err := cell.NewSession(ctx)
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	first, err := session.Lock(ctx, path)
	if err != nil {
		return err
	}
	errUnlock := first.Unlock(ctx) // while a write of it is still on its way
	second, err := session.Lock(ctx, path)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "second:", write(ctx, db, guard, "second", second.Token()))
	err = write(ctx, db, guard, "first", first.Token())
	fmt.Fprintln(out, "first is refused:", errors.Is(err, fence.ErrStale))
	return errors.Join(errUnlock, second.Unlock(ctx))
}

func write(ctx context.Context, db *sql.DB, guard *fence.SQL, holder string, token uint64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err = guard.Check(ctx, tx, path, token); err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO entries VALUES (?)", holder)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}
