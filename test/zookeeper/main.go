// Command zookeeper runs the lab's algorithm zookeeper on a real cell of three
// replicas: the candidates are clients with sessions and sequential ephemeral
// files. One candidate crashes, and the program shows which candidates that
// woke. It is run inside a clone of Stout and builds the replicas.
//
//	go run ./test/zookeeper --crash 2
//	go run ./test/zookeeper --herd
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "zookeeper:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("zookeeper", flag.ContinueOnError)
	n := flags.Int("n", 6, "number of candidates")
	herd := flags.Bool("herd", false, "all watch the leader")
	crash := flags.Int("crash", -1, "candidate that crashes (default: the leader)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *crash == -1 {
		*crash = *n - 1
	}
	if *n < 3 || *n > 100 || *crash < 0 || *crash >= *n {
		return fmt.Errorf("-n %d --crash %d: want 3 to 100 candidates, and the crash of one of them", *n, *crash)
	}
	dir, err := os.MkdirTemp("", "zookeeper")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := cell.Start(cell.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := c.WaitReady(ctx); err != nil {
		return err
	}
	return show(ctx, out, c.URLs(), "/election/", *n, *crash, *herd)
}

// show elects a leader, crashes one candidate, and elects again if that was the
// leader.
func show(ctx context.Context, out io.Writer, urls []string, dir string, n, crash int, herd bool) error {
	r, err := start(ctx, urls, dir, n, herd, false)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.elected(ctx, n-1); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d candidates, each with a sequential ephemeral file; all believe in %d\n", n, n-1)
	if err := r.crash(ctx, crash); err != nil {
		return err
	}
	leader := n - 1
	if crash == leader {
		leader--
	}
	want := wakes(n, crash, herd)
	if err := r.until(ctx, func() bool { return len(r.woken) >= want }); err != nil {
		return err
	}
	if err := r.elected(ctx, leader); err != nil {
		return err
	}
	if err := r.fence(ctx, 1); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d crashed: %d woken; all believe in %d\n", crash, len(r.woken), leader)
	return nil
}

// wakes returns how many candidates a crash wakes: the one that watches the
// crashed candidate or, in the herd, all after a crash of the leader.
func wakes(n, crash int, herd bool) int {
	switch {
	case herd && crash == n-1:
		return n - 1
	case herd, crash == 0:
		return 0
	}
	return 1
}
