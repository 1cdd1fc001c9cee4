package goosestout_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock/locktesting"
	_ "modernc.org/sqlite"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/contrib/goosestout"
	"github.com/stoutlock/stout/client/stouttest"
)

func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newLocker(t *testing.T, c *client.Client) *goosestout.Locker {
	t.Helper()
	l, err := goosestout.New(c, "/db/migrate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// TestProviderLocking is goose's own test of lockers: of five providers one
// makes all migrations. Each has a client of its own, like a process.
func TestProviderLocking(t *testing.T) {
	c, db := stouttest.New(t, stouttest.Options{}), open(t)
	migrations := fstest.MapFS{
		"1_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (n INTEGER);\n")},
		"2_b.sql": {Data: []byte("-- +goose Up\nCREATE TABLE b (n INTEGER);\n")},
		"3_c.sql": {Data: []byte("-- +goose Up\nINSERT INTO a VALUES (1);\n")},
	}
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithSessionLocker(newLocker(t, c.Client())))
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

// TestLostLock: when the lock is lost during the migrations, no later one runs,
// and goose returns the error.
func TestLostLock(t *testing.T) {
	c, db := stouttest.New(t, stouttest.Options{}), open(t)
	m := c.Client()
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithSessionLocker(newLocker(t, m)), goose.WithGoMigrations(
		goose.NewGoMigration(1, &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error {
			lock, err := m.ReadLock(ctx, "/db/migrate")
			if err != nil || len(lock.Holders) != 1 {
				t.Fatalf("%+v, %v", lock, err)
			}
			c.ExpireSession(lock.Holders[0].Session)
			for db.Stats().InUse > 0 { // until the locker closes the connection
				runtime.Gosched()
			}
			return nil
		}}, nil),
		goose.NewGoMigration(2, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error {
			t.Error("a migration runs without the lock")
			return nil
		}}, nil),
	))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Up(t.Context()); !errors.Is(err, sql.ErrConnDone) {
		t.Errorf("migrations without the lock: %v", err)
	}
}

// TestSessionLock: the lock excludes other processes and other connections, and
// a wait for it ends with its context.
func TestSessionLock(t *testing.T) {
	c, db := stouttest.New(t, stouttest.Options{}), open(t)
	l := newLocker(t, c.Client())
	conn := func() *sql.Conn {
		t.Helper()
		one, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	one, two := conn(), conn()
	if err := l.SessionLock(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 2)
	for _, locker := range []*goosestout.Locker{l, newLocker(t, c.Client())} {
		go func() { waits <- locker.SessionLock(ctx, two) }()
	}
	c.KillMaster()
	select {
	case err := <-waits:
		t.Errorf("another caller has the lock: %v", err)
	default:
	}
	cancel()
	for range 2 {
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that was cancelled: %v", err)
		}
	}
	if err := l.SessionUnlock(t.Context(), two); err == nil {
		t.Error("a connection without the lock was unlocked")
	}
	if err := l.SessionUnlock(t.Context(), one); err != nil {
		t.Error(err)
	}
	if err := one.PingContext(t.Context()); err != nil {
		t.Errorf("the connection after its lock: %v", err)
	}
	if err := l.SessionLock(t.Context(), two); err != nil {
		t.Error(err)
	}
	if _, err := goosestout.New(c.Client(), "db"); err == nil {
		t.Error("a bad path was accepted")
	}
}
