package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

const (
	apiPort  = 7101 // of r1; the others follow
	raftPort = 7201

	startBound = 30 * time.Second       // for a master to be in office
	stopBound  = 20 * time.Second       // for all to stop in good order
	look       = 500 * time.Millisecond // from one look at the cell to the next, and for each question to it
)

// runCell runs a cell of three replicas in the foreground until ctx ends.
func runCell(ctx context.Context) error {
	root, err := build(ctx, "./cmd/stoutd", "./cmd/stout")
	if err != nil {
		return err
	}
	if err := portsAreFree(3); err != nil {
		return err
	}
	c, err := cell.Start(cell.Options{
		Dir: filepath.Join(root, ".stout"), Name: "local", Size: 3,
		Binary:  filepath.Join(root, "bin", "stoutd"),
		APIPort: apiPort, RaftPort: raftPort,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	starting, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	master, err := c.WaitReady(starting)
	if ctx.Err() != nil {
		return stop(c)
	}
	if err != nil {
		return fmt.Errorf("no master in office after %s: %w\n%s", startBound, err, logs(c))
	}
	introduce(ctx, c, master)
	if err := watch(ctx, c, master); err != nil {
		return err
	}
	return stop(c)
}

// portsAreFree says what is wrong before three replicas say it each.
func portsAreFree(size int) error {
	for i := range size {
		for _, port := range []int{apiPort + i, raftPort + i} {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				return fmt.Errorf("port %d is taken: is a cell running already? (%w)", port, err)
			}
			_ = l.Close()
		}
	}
	return nil
}

// introduce shows the cell and what to try with it.
func introduce(ctx context.Context, c *cell.Cell, master *cell.Replica) {
	say("A Stout cell of three replicas. Data and logs are in %s.\n", relative(c.Dir()))
	say("  REPLICA  API                    RAFT            PID")
	for _, r := range c.Replicas() {
		note := ""
		if r == master {
			note = "  master"
			if view, err := r.Cell(ctx); err == nil {
				note = fmt.Sprintf("  master, epoch %d", view.Epoch)
			}
		}
		say("  %-7s  %-21s  %-14s  %-7d%s", r.ID, r.URL, r.RaftAddr, r.PID(), note)
	}
	urls := c.URLs()
	say("\nTry, in another terminal:\n")
	say("  curl -s %s/v1/cell", urls[0])
	say(`  S=$(curl -s %s/v1/sessions -d '{"name":"me","ttl_ms":60000}' | sed 's/.*"id": *"\([^"]*\)".*/\1/'); curl -s -X PUT %s/v1/locks/db/migrate -d "{\"session\":\"$S\"}"`, urls[1], urls[1])
	say("  curl -s %s/v1/locks/db/migrate", urls[2])
	stout := relative(filepath.Join(filepath.Dir(c.Dir()), "bin", "stout")) + " --server " + strings.Join(urls, ",")
	say("\n  %s status", stout)
	say("  %s lock /db/backup -- sh -c 'echo I hold $STOUT_PATH with token $STOUT_TOKEN'", stout)
	say("\nKill the master (kill -9 %d) and watch another take over. Ctrl-C stops the cell.\n", master.PID())
}

// relative is a path as seen from the working directory, where that is shorter.
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

// watch tells of replicas that end and of changes of the master, until ctx ends
// (nil) or no replica is left.
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

// watcher is what watch has told of so far.
type watcher struct {
	cell   *cell.Cell
	master *cell.Replica   // nil where there is none
	gone   map[string]bool // replicas whose process of ours has ended
}

// look tells what is new. It is an error when no replica is left, neither of
// ours nor one that somebody started again with the command that look told.
func (w *watcher) look(ctx context.Context) error {
	for _, r := range w.cell.Replicas() {
		if !r.Running() && !w.gone[r.ID] {
			w.gone[r.ID] = true
			_, state := r.ExitState()
			note("%s ended: %s. Its log: %s. To have it back:\n\n  %s\n", r.ID, state, relative(r.LogFile), commandLine(r))
		}
	}
	if len(w.gone) == len(w.cell.Replicas()) && len(startedElsewhere(ctx, w.cell)) == 0 {
		return errors.New("every replica has ended" + logs(w.cell))
	}
	w.master = noteMaster(ctx, w.cell, w.master)
	return nil
}

// startedElsewhere are the ids of the replicas whose process of ours has ended
// and at whose API's port somebody takes connections all the same. One that is
// stopped (SIGSTOP) does, too.
func startedElsewhere(ctx context.Context, c *cell.Cell) (ids []string) {
	dialer := net.Dialer{Timeout: look}
	for _, r := range c.Replicas() {
		if r.Running() {
			continue
		}
		conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(r.URL, "http://"))
		if err == nil {
			_ = conn.Close()
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// noteMaster tells of a change of the master and returns the present one, nil
// where there is none.
func noteMaster(ctx context.Context, c *cell.Cell, before *cell.Replica) *cell.Replica {
	asking, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	now, _ := c.Master(asking)
	switch {
	case ctx.Err() != nil || now == before:
	case now == nil:
		note("no master is in office")
	default:
		note("%s is master", now.ID)
	}
	return now
}

func note(format string, args ...any) {
	say(time.Now().Format("15:04:05")+"  "+format, args...)
}

// commandLine is a replica's command for a shell.
func commandLine(r *cell.Replica) string {
	words := r.Command()
	for i, w := range words {
		if strings.ContainsAny(w, " '\"$;&|*?()<>\\") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// stop stops every replica in good order.
func stop(c *cell.Cell) error {
	say("\nStopping.")
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		return fmt.Errorf("not stopped in good order: %w\n%s", err, logs(c))
	}
	if ids := startedElsewhere(ctx, c); len(ids) > 0 {
		say("Stopped, but for what was started elsewhere, to be stopped there: %s.", strings.Join(ids, ", "))
		return nil
	}
	say("Stopped. The next `make run` goes on with the same data.")
	return nil
}
