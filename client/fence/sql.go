package fence

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// Dialect is the SQL of a database.
type Dialect int

// The databases. MySQL includes MariaDB.
const (
	PostgreSQL Dialect = iota
	MySQL
	SQLite
)

// SQL guards the tables of a database. A table of its own has one row for each
// resource, with the highest token.
type SQL struct {
	schema string
	raise  string // raises the row's token, unless that is higher, and locks the row
	read   string // reads the token; empty if raise returns it
}

// NewSQL returns a guard with the given table, for example "stout_fence" or, in
// a schema, "ops.fence". Create makes the table.
func NewSQL(d Dialect, table string) (*SQL, error) {
	if !isTable(table) {
		return nil, lockapi.Invalid("table", "%q is not the name of a table: use letters, digits, underscores, and a dot after a schema", lockapi.Clip(table))
	}
	resource, marks, g := "TEXT", "(?, ?)", &SQL{}
	switch d {
	case PostgreSQL:
		marks = "($1, $2)"
	case SQLite:
	case MySQL:
		resource = fmt.Sprintf("VARBINARY(%d)", maxResource)
		g.read = "SELECT token FROM " + table + " WHERE resource = ? FOR UPDATE"
	default:
		return nil, lockapi.Invalid("dialect", "there is no dialect %d: use PostgreSQL, MySQL or SQLite", d)
	}
	g.schema = "CREATE TABLE IF NOT EXISTS " + table + " (resource " + resource + " NOT NULL PRIMARY KEY, token BIGINT NOT NULL)"
	g.raise = "INSERT INTO " + table + " AS f (resource, token) VALUES " + marks +
		" ON CONFLICT (resource) DO UPDATE SET token = CASE WHEN f.token > excluded.token THEN f.token ELSE excluded.token END RETURNING token"
	if d == MySQL {
		g.raise = "INSERT INTO " + table + " (resource, token) VALUES " + marks + " ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))"
	}
	return g, nil
}

// isTable reports whether name is a plain identifier, or two with a dot between
// them.
func isTable(name string) bool {
	schema, table, dotted := strings.Cut(name, ".")
	isName := func(s string) bool {
		return s != "" && len(s) < 64 && (s[0] < '0' || s[0] > '9') &&
			strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
	}
	return isName(schema) && (!dotted || isName(table))
}

// Create makes the table unless it exists.
func (g *SQL) Create(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, g.schema)
	return err
}

// Check admits the writes of a transaction that a token protects. Call it in the
// transaction of the writes, and roll back if it returns an error. It returns a
// *StaleError if a higher token has been committed.
//
// Check is one statement, in MySQL two. It locks the resource's row until the
// transaction ends. A transaction with a higher token therefore waits in Check
// for one that is under way, and after Check no earlier holder can write: read
// after it, too. Above the level READ COMMITTED, PostgreSQL reports a
// serialization failure instead of a late write; it must not be ignored either.
//
// A holder that hangs within its transaction makes its successors wait: bound
// the time of transactions in the database (idle_in_transaction_session_timeout
// in PostgreSQL, for example).
func (g *SQL) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := validate(resource, token); err != nil {
		return err
	}
	var highest int64
	var err error
	if g.read == "" {
		err = tx.QueryRowContext(ctx, g.raise, resource, int64(token)).Scan(&highest)
	} else if _, err = tx.ExecContext(ctx, g.raise, resource, int64(token)); err == nil {
		err = tx.QueryRowContext(ctx, g.read, resource).Scan(&highest)
	}
	if err != nil {
		return fmt.Errorf("fence: check the token of %s: %w", lockapi.Clip(resource), err)
	}
	if uint64(highest) > token {
		return &StaleError{Resource: resource, Token: token, Highest: uint64(highest)}
	}
	return nil
}
