//go:build unix

package fencesql

import (
	"bufio"
	"database/sql"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/stoutlock/stout/client/fence"
	"github.com/stoutlock/stout/internal/testrun"
)

// engine is a database with a guard's table, and one of data.
type engine struct {
	db    *sql.DB
	guard *fence.SQL
}

// onEach runs a test on each database.
func onEach(t *testing.T, test func(t *testing.T, e engine)) {
	for name, open := range map[string]func(*testing.T) (fence.Dialect, *sql.DB){
		"SQLite": sqlite, "PostgreSQL": postgres,
		"MariaDB":           func(t *testing.T) (fence.Dialect, *sql.DB) { return mariadb(t, "") },
		"MariaDB,foundRows": func(t *testing.T) (fence.Dialect, *sql.DB) { return mariadb(t, "?clientFoundRows=true") },
	} {
		t.Run(name, func(t *testing.T) {
			d, db := open(t)
			t.Cleanup(func() { _ = db.Close() })
			for _, table := range []string{"stout_fence", "data"} {
				exec1(t, db, "DROP TABLE IF EXISTS "+table)
			}
			exec1(t, db, "CREATE TABLE data (n INTEGER NOT NULL, token BIGINT NOT NULL)")
			guard, err := fence.NewSQL(d, "stout_fence")
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second finds the table
				if err := guard.Create(t.Context(), db); err != nil {
					t.Fatal(err)
				}
			}
			test(t, engine{db, guard})
		})
	}
}

func exec1(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func connect(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err == nil {
		err = db.PingContext(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func sqlite(t *testing.T) (fence.Dialect, *sql.DB) {
	return fence.SQLite, connect(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_txlock=immediate")
}

// servers are the sources of the databases that the tests have started.
var servers = map[string]string{}

// stop ends them.
var stop []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range stop {
		end()
	}
	os.Exit(code)
}

func postgres(t *testing.T) (fence.Dialect, *sql.DB) {
	testrun.E2E(t)
	if servers["postgres"] == "" {
		program := find(t, "postgres", "/usr/lib/postgresql/*/bin/postgres")
		dir, owner := newDir(t)
		data := filepath.Join(dir, "data")
		run(t, owner, filepath.Join(filepath.Dir(program), "initdb"), "--no-sync", "--auth=trust", "--username=test", "-D", data)
		start(t, owner, "ready to accept connections", program, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
		servers["postgres"] = "host=" + dir + " user=test database=postgres"
	}
	return fence.PostgreSQL, connect(t, "pgx", servers["postgres"])
}

func mariadb(t *testing.T, options string) (fence.Dialect, *sql.DB) {
	testrun.E2E(t)
	if servers["mariadb"] == "" {
		program := find(t, "mariadbd", "/usr/sbin/mariadbd")
		dir, owner := newDir(t)
		data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "socket")
		run(t, owner, find(t, "mariadb-install-db"), "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
		start(t, owner, "ready for connections", program, "--no-defaults", "--datadir="+data, "--socket="+socket, "--skip-networking", "--pid-file="+filepath.Join(dir, "pid"))
		servers["mariadb"] = "root@unix(" + socket + ")/"
		db := connect(t, "mysql", servers["mariadb"])
		exec1(t, db, "CREATE DATABASE test")
		_ = db.Close()
	}
	return fence.MySQL, connect(t, "mysql", servers["mariadb"]+"test"+options)
}

// find returns a program, or skips the test.
func find(t *testing.T, name string, patterns ...string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		path, err = filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, pattern := range patterns {
		if paths, _ := filepath.Glob(pattern); len(paths) > 0 {
			return paths[len(paths)-1]
		}
	}
	t.Skipf("no %s here", name)
	return ""
}

// newDir makes a directory for a server, and returns the account that owns it:
// these servers refuse to run as root. A socket's path must be short.
func newDir(t *testing.T) (string, *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("", "db-")
	if err != nil {
		t.Fatal(err)
	}
	stop = append(stop, func() { _ = os.RemoveAll(dir) })
	if os.Getuid() != 0 {
		return dir, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func command(as *syscall.SysProcAttr, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = "/", as
	return cmd
}

func run(t *testing.T, as *syscall.SysProcAttr, program string, args ...string) {
	t.Helper()
	if out, err := command(as, program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// start starts a server, and returns when it has printed that it is ready.
func start(t *testing.T, as *syscall.SysProcAttr, ready, program string, args ...string) {
	t.Helper()
	cmd := command(as, program, args...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = append([]func(){func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // a fast end of PostgreSQL
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}}, stop...)
	var printed strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		printed.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), ready) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	t.Fatalf("%s has ended:\n%s", program, &printed)
}
