package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// peers is one comparison.
type peers struct {
	systems []*system
	plan    load.Plan
	runs    int
	log     io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	p := &peers{log: stderr}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	etcd := flags.String("etcd", "", "`path` of the server etcd; empty: without etcd")
	zookeeper := flags.String("zookeeper", "", "`directory` of ZooKeeper's jars; empty: without ZooKeeper")
	dir := flags.String("dir", "", "`directory` for the data, on the disk to measure (default: a temporary one)")
	only := flags.String("only", "", "`names` of works, separated by commas: "+strings.Join(workNames(), ", "))
	flags.IntVar(&p.runs, "runs", 3, "runs of each work, and kills")
	flags.DurationVar(&p.plan.Duration, "duration", 4*time.Second, "measured time of a run")
	flags.DurationVar(&p.plan.Warmup, "warmup", time.Second, "unmeasured time before it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p.plan.Drain = drain
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "stout-peers-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(*dir)) }()
	}
	defer func() {
		for _, s := range p.systems {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, peer := range []struct {
		name  string
		given bool
		open  func(ctx context.Context, dir string) (service, error)
	}{{"Stout", true, openStout}, {"etcd", *etcd != "", etcdAt(*etcd)}, {"ZooKeeper", *zookeeper != "", zookeeperAt(*zookeeper)}} {
		if !peer.given {
			continue
		}
		own := filepath.Join(*dir, peer.name)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		s, err := peer.open(ctx, own)
		if err != nil {
			return fmt.Errorf("start %s: %w", peer.name, err)
		}
		p.systems = append(p.systems, &system{peer.name, s})
	}
	var rows []row
	for _, w := range chosen {
		for _, n := range w.sessions {
			rows = append(rows, row{work: w, sessions: n, figures: make([]figures, len(p.systems))})
		}
	}
	failed := p.measure(ctx, rows)
	return errors.Join(failed, p.show(stdout, rows))
}

// choose returns the works with the given names, in the order of the table; all
// if there are no names.
func choose(names string) ([]work, error) {
	if names == "" {
		return works, nil
	}
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.Contains(workNames(), name) {
			return nil, fmt.Errorf("no work is named %q; the works are %s", name, strings.Join(workNames(), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(works), func(w work) bool { return !slices.Contains(wanted, w.name) }), nil
}

func workNames() (names []string) {
	for _, w := range works {
		names = append(names, w.name)
	}
	return names
}

// system is a running service and its name in the table.
type system struct {
	name string
	service
}

// row is one row of the table: the figures of each system.
type row struct {
	work     work
	sessions int
	figures  []figures // in the order of the systems
}

// figures are the runs of one row in one system.
type figures struct {
	rates  []float64 // operations per second; of kills: seconds of the gap
	cpu    []float64 // ms of the servers' CPU per 1000 operations
	errors int64
	first  error
}

// show writes the table, and below it the failed operations.
func (p *peers) show(out io.Writer, rows []row) error {
	var table, failed strings.Builder
	table.WriteString("| work | sessions |")
	for _, s := range p.systems {
		fmt.Fprintf(&table, " %s |", s.name)
	}
	table.WriteString(" Stout × best |")
	for _, s := range p.systems {
		fmt.Fprintf(&table, " CPU %s |", s.name)
	}
	table.WriteString("\n| --- |" + strings.Repeat(" ---: |", 2+2*len(p.systems)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&table, "| %s | %d |", r.work.title, r.sessions)
		for i, f := range r.figures {
			fmt.Fprintf(&table, " %s |", r.work.figure(load.Median(f.rates)))
			if f.errors > 0 {
				fmt.Fprintf(&failed, "\n%s, %s with %d sessions: %d errors, the first: %v\n", p.systems[i].name, r.work.name, r.sessions, f.errors, f.first)
			}
		}
		fmt.Fprintf(&table, " %s |", r.ratio())
		for _, f := range r.figures {
			cpu := "–"
			if len(f.cpu) > 0 {
				cpu = fmt.Sprintf("%.0f", load.Median(f.cpu))
			}
			fmt.Fprintf(&table, " %s |", cpu)
		}
		table.WriteString("\n")
	}
	_, err := io.WriteString(out, table.String()+failed.String())
	return err
}

// figure formats a median.
func (w *work) figure(median float64) string {
	if w.rate == nil {
		return fmt.Sprintf("%.2f s", median)
	}
	return fmt.Sprintf("%.0f", median)
}

// ratio returns how many times better Stout is than the best of the others.
func (r *row) ratio() string {
	best := 0.0
	for _, f := range r.figures[1:] {
		other := load.Median(f.rates)
		if other > 0 && (best == 0 || (other < best) == (r.work.rate == nil)) {
			best = other
		}
	}
	stout := load.Median(r.figures[0].rates)
	if best == 0 || stout == 0 {
		return "–"
	}
	if r.work.rate == nil {
		return fmt.Sprintf("%.2f", best/stout)
	}
	return fmt.Sprintf("%.2f", stout/best)
}
