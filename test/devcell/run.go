package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

const (
	startBound = 30 * time.Second       // until there is a master
	stopBound  = 20 * time.Second       // until all replicas have stopped cleanly
	look       = 500 * time.Millisecond // interval of the checks of a running cell, and the time-out of each call in them
)

// runOptions are the flags of devcell run.
type runOptions struct {
	data string // empty: .stout, or .stout-secure
	port int    // of the first API; 0: any

	secure bool     // with TLS, access control and an audit log
	args   []string // further flags of stoutd
}

// runCell runs a cell of three replicas in the foreground until ctx ends.
func runCell(ctx context.Context, o runOptions) error {
	root, bin, err := build(ctx, "./cmd/stoutd", "./cmd/stout")
	if err != nil {
		return err
	}
	if o.data == "" {
		o.data = filepath.Join(root, ".stout")
		if o.secure {
			o.data += "-secure"
		}
	}
	alone, err := lockDir(o.data)
	if err != nil {
		return err
	}
	defer alone.Close()
	p, err := choosePorts(o.data, o.port, inUse)
	if err != nil {
		return err
	}
	options := cell.Options{
		Dir: o.data, Name: "local", Size: size, Binary: filepath.Join(bin, "stoutd"),
		APIPort: p.API, RaftPort: p.Raft, Args: o.args,
		Secure: o.secure, Clients: []string{secureClient}, Audit: o.secure,
	}
	if o.secure {
		if options.RootToken, err = rootToken(o.data); err != nil {
			return err
		}
	}
	c, err := cell.Start(options)
	if err != nil {
		return err
	}
	defer c.Close()
	if o.secure {
		if err := writeCurl(c, options.RootToken); err != nil {
			return err
		}
	}
	starting, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	master, err := c.WaitReady(starting)
	if ctx.Err() != nil {
		return stop(c)
	}
	if err != nil {
		return fmt.Errorf("no master after %s: %w\n%s", startBound, err, logs(c))
	}
	introduce(ctx, c, master, bin)
	if err := watch(ctx, c, master); err != nil {
		return err
	}
	return stop(c)
}

// lockDir locks dir, so that only one program runs its cell. The lock lasts until
// the file is closed.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("the cell in %s is already running: use it, or run another beside it: make run ARGS=\"--data .stout2\"", relative(dir))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// introduce prints the replicas and commands to try.
func introduce(ctx context.Context, c *cell.Cell, master *cell.Replica, bin string) {
	say("A Stout cell of three replicas. Data and logs are in %s.\n", relative(c.Dir()))
	say("  REPLICA  API                     RAFT            PID")
	for _, r := range c.Replicas() {
		note := ""
		if r == master {
			note = "  master"
			if view, err := r.Cell(ctx); err == nil {
				note = fmt.Sprintf("  master, epoch %d", view.Epoch)
			}
		}
		say("  %-7s  %-22s  %-14s  %-7d%s", r.ID, r.URL, r.RaftAddr, r.PID(), note)
	}
	urls := c.URLs()
	say("\nTry, in another terminal:\n")
	curl := "curl"
	if c.TLS() != nil {
		curl = "curl -K " + absolute(curlFile(c.Dir()))
		saySecure(c)
	}
	say("  %s -s %s/v1/cell", curl, urls[0])
	say(`  S=$(%[1]s -s %[2]s/v1/sessions -d '{"name":"me","ttl_ms":60000}' | sed 's/.*"id": *"\([^"]*\)".*/\1/'); %[1]s -s -X PUT %[2]s/v1/locks/db/migrate -d "{\"session\":\"$S\"}"`, curl, urls[1])
	say("  %s -s %s/v1/locks/db/migrate", curl, urls[2])
	stout := relative(filepath.Join(bin, "stout"))
	say("")
	if c.TLS() != nil {
		say("  export STOUT_SERVER=%s", strings.Join(urls, ","))
	} else if !strings.HasSuffix(urls[0], fmt.Sprintf(":%d", firstPort)) { // stout finds the default ports by itself
		say("  export STOUT_SERVER=%s", strings.Join(urls, ","))
	}
	say("  %s status", stout)
	say("  %s lock /db/backup -- sh -c 'echo I hold $STOUT_PATH with token $STOUT_TOKEN'", stout)
	if c.TLS() != nil {
		sayAccess(c, curl, urls[0])
	} else {
		say("\nOr watch the cell in a browser: %s/ui/", urls[0])
	}
	say("\nKill the master (kill -9 %d) and watch another take over. Ctrl-C stops the cell.\n", master.PID())
}

// secureClient is the name of the client certificate of a cell with TLS.
const secureClient = "me"

// saySecure prints the variables with which stout calls a secured cell.
func saySecure(c *cell.Cell) {
	say("  export STOUT_CA_CERT=%s STOUT_CERT=%s STOUT_KEY=%s", absolute(c.Cert("ca.pem")), absolute(c.Cert(secureClient+".pem")), absolute(c.Cert(secureClient+"-key.pem")))
	if token := tokenFile(c.Dir()); exists(token) {
		say("  export STOUT_AUTH_TOKEN_FILE=%s", absolute(token))
	}
}

// sayAccess prints commands that try access control and the audit log.
func sayAccess(c *cell.Cell, curl, url string) {
	if !exists(tokenFile(c.Dir())) {
		return
	}
	say("")
	say("  %s -s %s/v1/access/whoami", curl, url)
	say("  %s -s -X PUT -d '{\"read\":[\"*\"],\"lock\":[\"user:me\"],\"write\":[\"user:me\"]}' %s/v1/access/rules/app", curl, url)
	say("  %s -s '%s/v1/access/check?path=/app/x&principal=user:me'", curl, url)
	say("  tail -qn 1 %s/*.audit.log", absolute(c.Dir()))
	say("")
	say("The root token is in %s; curl reads it from %s.", relative(tokenFile(c.Dir())), relative(curlFile(c.Dir())))
}

// absolute returns the absolute path, quoted for a shell.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return quoted(path)
}

// relative returns the path relative to the working directory if that is
// shorter.
func relative(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(dir, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}

// watch prints which replicas have ended and each change of the master. It
// returns nil when ctx ends, and an error when no replica is left.
func watch(ctx context.Context, c *cell.Cell, master *cell.Replica) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	w := &watcher{cell: c, master: master, gone: map[string]bool{}}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.look(ctx); err != nil {
			return err
		}
	}
}

// watcher is the state that watch has reported.
type watcher struct {
	cell   *cell.Cell
	master *cell.Replica   // nil: no master
	gone   map[string]bool // replicas that have ended as processes of this program
}

// look prints changes. It returns an error when no replica is left: neither one
// of this program's processes nor one restarted with the command that look
// printed.
func (w *watcher) look(ctx context.Context) error {
	for _, r := range w.cell.Replicas() {
		if !r.Running() && !w.gone[r.ID] {
			w.gone[r.ID] = true
			_, state := r.ExitState()
			note("%s ended: %s. Its log: %s. To restart it:\n\n  %s\n", r.ID, state, relative(r.LogFile), commandLine(r))
		}
	}
	if len(w.gone) == len(w.cell.Replicas()) && len(startedElsewhere(ctx, w.cell)) == 0 {
		return errors.New("every replica has ended" + logs(w.cell))
	}
	w.master = noteMaster(ctx, w.cell, w.master)
	return nil
}

// startedElsewhere returns the ids of replicas that have ended as processes of
// this program, but have an API port that accepts connections. A stopped
// process (SIGSTOP) accepts them too.
func startedElsewhere(ctx context.Context, c *cell.Cell) (ids []string) {
	dialer := net.Dialer{Timeout: look}
	for _, r := range c.Replicas() {
		if r.Running() {
			continue
		}
		conn, err := dialer.DialContext(ctx, "tcp", r.Addr())
		if err == nil {
			_ = conn.Close()
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// noteMaster prints a change of the master and returns the current one, or nil.
func noteMaster(ctx context.Context, c *cell.Cell, before *cell.Replica) *cell.Replica {
	asking, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	now, _ := c.Master(asking)
	switch {
	case ctx.Err() != nil || now == before:
	case now == nil:
		note("there is no master")
	default:
		note("the master is %s", now.ID)
	}
	return now
}

func note(format string, args ...any) {
	say(time.Now().Format("15:04:05")+"  "+format, args...)
}

func commandLine(r *cell.Replica) string {
	words := r.Command()
	for i, w := range words {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

func quoted(w string) string {
	if strings.ContainsAny(w, " '\"$;&|*?()<>\\") {
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return w
}

func stop(c *cell.Cell) error {
	say("\nStopping.")
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		return fmt.Errorf("not stopped cleanly: %w\n%s", err, logs(c))
	}
	if ids := startedElsewhere(ctx, c); len(ids) > 0 {
		say("Stopped. Replicas that were restarted elsewhere still run and must be stopped there: %s.", strings.Join(ids, ", "))
		return nil
	}
	say("Stopped. The next `make run` continues with the same data.")
	return nil
}
