package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/bench/internal/drive"
	"github.com/stoutlock/stout/test/bench/internal/load"
	"github.com/stoutlock/stout/test/bench/internal/report"
)

// Numbers of the work ephemeral: of the files where no number is named, and of
// the sessions that have them.
const (
	ephemeralFiles    = 2000
	ephemeralSessions = 20
)

// mortal is the name under which the program starts itself as the process that
// is to die: mortal TTL SESSIONS FILES URL…
const mortal = "mortal"

// ephemeralDir is where its files are.
const ephemeralDir = "/bench/ephemeral/"

// runEphemeral kills a process and measures how long its ephemeral files outlive
// it. It uses the SDK, whatever --via says, as the process has to keep its
// sessions alive as programs do.
func runEphemeral(ctx context.Context, b *bench) error {
	ns := b.sessions
	if len(ns) == 0 {
		ns = []int{ephemeralFiles}
	}
	for _, n := range ns {
		row := &report.Farewell{TTL: b.ttl.Seconds(), Sessions: min(ephemeralSessions, n)}
		var gone []float64
		for i := range b.runs {
			label := fmt.Sprintf("ephemeral, %d files of %d sessions, run %d of %d", n, row.Sessions, i+1, b.runs)
			// Each run's death is at another point of the keepalives' rhythm.
			took, parted, err := b.die(ctx, label, n, row.Sessions, b.ttl*time.Duration(i+1)/time.Duration(b.runs+1))
			if err != nil {
				return fmt.Errorf("%s: %w", label, err)
			}
			b.progress.note("%s: gone after %.2f s", label, took.Seconds())
			gone, row.Parted = append(gone, took.Seconds()), row.Parted+parted
		}
		row.Gone = load.SpreadOf(gone)
		b.add(report.Row{Work: "ephemeral", Via: drive.SDK, Sessions: n, Runs: b.runs, Farewell: row})
	}
	return nil
}

// die has a process make the files, live for a while, and die. It returns how
// long the files outlived it, and of how many sessions they did not end in one
// change.
func (b *bench) die(ctx context.Context, label string, n, sessions int, life time.Duration) (took time.Duration, parted int, err error) {
	b.progress.step("%s: opening", label)
	watcher, err := b.cell.Way().SDK()
	if err != nil {
		return 0, 0, err
	}
	defer watcher.Close()
	before, err := watcher.Revision(ctx)
	if err != nil {
		return 0, 0, err
	}
	kill, err := startMortal(ctx, append([]string{b.ttl.String(), strconv.Itoa(sessions), strconv.Itoa(n)}, b.cell.URLs()...))
	if err != nil {
		return 0, 0, err
	}
	defer kill()
	if err := pause(ctx, life); err != nil {
		return 0, 0, err
	}
	died := time.Now()
	kill()
	b.progress.step("%s: waiting for the end of the files", label)
	watching, cancel := context.WithTimeoutCause(ctx, b.ttl+recovery, fmt.Errorf("the files are not gone after %v", b.ttl+recovery))
	defer cancel()
	w := wake{left: n}
	for e, err := range watcher.Watch(watching, before, client.OnPrefix(ephemeralDir), client.OfType(lockapi.EventFileDeleted)) {
		if err != nil {
			return 0, 0, err
		}
		done, err := w.hear(&e)
		if err != nil {
			return 0, 0, err
		}
		if done {
			break
		}
	}
	return time.Since(died), w.parted(), nil
}

// wake hears of the deletions of files whose sessions have ended.
type wake struct {
	left  int                // files
	spans map[string]*stride // by session
}

// stride is the revisions of a session's deletions.
type stride struct{ first, last, n uint64 }

// hear takes in one event. It says when the last file is gone.
func (w *wake) hear(e *client.Event) (done bool, err error) {
	switch {
	case e.Compacted != nil:
		return false, errors.New("the events of the deletions are not kept any more")
	case e.Type != lockapi.EventFileDeleted:
		return false, nil
	case e.Reason != lockapi.ReasonSessionEnded || e.File == nil:
		return false, fmt.Errorf("%s was deleted at revision %d because: %s", e.Path, e.Revision, e.Reason)
	}
	if w.spans == nil {
		w.spans = map[string]*stride{}
	}
	s := w.spans[e.File.Session]
	if s == nil {
		s = &stride{first: e.Revision}
		w.spans[e.File.Session] = s
	}
	s.last, s.n = e.Revision, s.n+1
	w.left--
	return w.left == 0, nil
}

// parted counts the sessions between whose deletions something else happened.
func (w *wake) parted() (n int) {
	for _, s := range w.spans {
		if s.last-s.first+1 != s.n {
			n++
		}
	}
	return n
}

// startMortal starts the process and waits until it has its files. kill ends it
// as kill -9 does; it may be called twice.
func startMortal(ctx context.Context, args []string) (kill func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{mortal}, args...)...)
	cmd.Env = append(os.Environ(), mortalEnv+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	// Its end of the pipe tells the process that this one is gone.
	_, err = cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	kill = func() {
		_ = cmd.Process.Kill() // it may be dead
		_ = cmd.Wait()         // so its end is no news
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		kill()
		return nil, fmt.Errorf("the process that is to die did not get its files: %s: %w", said.String(), err)
	}
	return kill, nil
}

// mortalEnv tells a test's binary that it is to be the program.
const mortalEnv = "STOUT_BENCH_MORTAL"

// runMortal is the process that is to die: it makes its files, says so by a
// line, and lives until then, or until whoever has started it is gone.
func runMortal(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) < 4 {
		return fmt.Errorf("%s is for bench itself: it is started by the work ephemeral", mortal)
	}
	ttl, err := time.ParseDuration(args[0])
	sessions, err2 := strconv.Atoi(args[1])
	files, err3 := strconv.Atoi(args[2])
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	owned := make([]*client.Session, sessions)
	err = drive.Each(sessions, func(i int) error {
		c, err := client.New(args[3:]...)
		if err == nil {
			owned[i], err = c.NewSession(ctx, client.WithTTL(ttl), client.WithName("bench mortal"))
		}
		return err
	})
	if err != nil {
		return err
	}
	err = drive.Each(files, func(i int) error {
		_, err := owned[i%sessions].Put(ctx, fmt.Sprintf("%s%d", ephemeralDir, i), []byte("alive"), client.Ephemeral())
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	_, err = io.Copy(io.Discard, in)
	return err
}
