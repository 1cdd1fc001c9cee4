package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/test/bench/internal/drive"
	"github.com/stoutlock/stout/test/bench/internal/host"
	"github.com/stoutlock/stout/test/bench/internal/load"
	"github.com/stoutlock/stout/test/bench/internal/report"
)

const (
	// manyFiles is how many files the work files makes where no number is named.
	manyFiles = 100_000
	// fillers are the sessions that make them.
	fillers = 32
	// leap is by which a single writer goes through the files: it is prime, so
	// that it comes to all of them, and not in their order.
	leap = 7919
)

// runFiles measures what many files take, and what they do to a single write:
// beside another cell that has hardly any, and while replicas write snapshots.
func runFiles(ctx context.Context, b *bench) error {
	ns := b.sessions
	if len(ns) == 0 {
		ns = []int{manyFiles}
	}
	for _, via := range b.via {
		for _, n := range ns {
			f := &filling{bench: b, label: fmt.Sprintf("files via %s, %d", via, n), via: via, n: n}
			if err := f.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", f.label, err)
			}
		}
	}
	return nil
}

// filling is one row of the work.
type filling struct {
	*bench
	label, via string
	n          int
	row        report.Filled

	full, empty site
}

// site is one of the two cells that are compared, and those who write to it.
type site struct {
	cell    *host.Cell
	writers *field // the first is the single one
	files   int
}

// path is the i-th file's. After the last one comes the first one again.
func (s *site) path(i int) string {
	return fmt.Sprintf("/bench/files/%d/%d", i%s.files/filesBelow, i%s.files%filesBelow)
}

// filesBelow is how many of the files are in one directory.
const filesBelow = 1000

// run fills one cell with n files, and makes as many writes to few files of another:
// what events, log and garbage take is then in the memory of both. The single writer
// has them in turn.
func (f *filling) run(ctx context.Context) (err error) {
	if err := f.cell.Refresh(ctx); err != nil { // the memory shows nothing of the works before
		return err
	}
	other, err := host.Open(ctx, host.Options{Binary: f.stoutd, Args: f.stoutdArgs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	f.full, f.empty = site{cell: f.cell, files: f.n}, site{cell: other, files: min(f.n, fillers)}
	for _, s := range []*site{&f.empty, &f.full} {
		if err := f.open(ctx, s); err != nil {
			return err
		}
		defer s.writers.close(ctx)
		began := time.Now()
		f.progress.note("%s: writing to %d files", f.label, s.files)
		if err := s.write(ctx, f.n); err != nil {
			return err
		}
		f.row.FillSeconds = time.Since(began).Seconds()
	}
	if err := f.inTurn(ctx); err != nil {
		return err
	}
	if err := f.weigh(ctx); err != nil {
		return err
	}
	if err := f.snapshots(ctx); err != nil {
		return err
	}
	f.add(report.Row{Work: "files", Via: f.via, Sessions: f.n, Runs: f.runs, Filled: &f.row})
	return nil
}

func (f *filling) open(ctx context.Context, s *site) (err error) {
	s.writers = &field{}
	if s.writers.clients, err = drive.Clients(f.via, s.cell.Way(), fillers, f.shared); err != nil {
		return err
	}
	return s.writers.openSessions(ctx, f.bench)
}

// write makes n writes.
func (s *site) write(ctx context.Context, n int) error {
	return drive.Each(n, func(i int) error {
		l := newLetter()
		l.serial = i
		return s.writers.sessions[i%fillers].WriteFile(ctx, s.path(i), l.next())
	})
}

// single overwrites one file after the other.
func (s *site) single() func(context.Context) error {
	l, i := newLetter(), 0
	return func(ctx context.Context) error {
		i += leap
		return s.writers.sessions[0].WriteFile(ctx, s.path(i), l.next())
	}
}

// inTurn makes the runs of the single writer.
func (f *filling) inTurn(ctx context.Context) error {
	var empty, full summary
	turns := []struct {
		what string
		on   *site
		who  *field
		sum  *summary
	}{
		{"empty", &f.empty, &field{steps: []load.Step{load.Timed(f.empty.single())}}, &empty},
		{"full", &f.full, &field{steps: []load.Step{load.Timed(f.full.single())}}, &full},
	}
	for i := range f.runs {
		for _, t := range turns {
			b := *f.bench
			b.cell = t.on.cell // whose CPU it is
			r, err := b.once(ctx, fmt.Sprintf("%s, %s, run %d of %d", f.label, t.what, i+1, f.runs), f.plan(0), t.who)
			if err != nil {
				return err
			}
			t.sum.add(r)
		}
	}
	f.row.Empty, f.row.Full = empty.load(false), full.load(false)
	return nil
}

// weigh compares the memory of the two cells.
func (f *filling) weigh(ctx context.Context) error {
	empty, err := f.empty.cell.Sample(ctx)
	if err != nil {
		return err
	}
	full, err := f.full.cell.Sample(ctx)
	if err != nil {
		return err
	}
	f.row.ContentMiB = mebibytes(int64(f.n) * fileBytes)
	f.row.Own = report.Pair{Empty: most(empty, 0, own), Full: most(full, 0, own)}
	f.row.Mapped = report.Pair{Empty: most(empty, 0, mapped), Full: most(full, 0, mapped)}
	return nil
}

// snapshots has the single writer go on while replicas write snapshots.
func (f *filling) snapshots(ctx context.Context) error {
	watching, stop := context.WithTimeout(ctx, f.snapshotTime)
	defer stop()
	var running sync.WaitGroup
	var rss float64
	running.Go(func() {
		for pause(watching, watchPause) == nil {
			if s, err := f.cell.Sample(watching); err == nil {
				rss = most(s, rss, own)
			}
		}
	})
	p, w := f.besidePhases(watching, []func(context.Context) error{f.full.single()})
	running.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.errs > 0 {
		return errors.New("a write failed beside snapshots")
	}
	f.row.OwnMost, f.row.Snapshots, f.row.SnapshotSeconds = rss, w.snapshots, w.took.Seconds()
	f.row.Calm, f.row.During = latencies(p.seen[0]), latencies(p.seen[1])
	return nil
}

func own(u host.Usage) int64    { return u.RSS - u.Mapped }
func mapped(u host.Usage) int64 { return u.Mapped }

// most is the memory of the replica that has most, in MiB, or least where that is
// more.
func most(s host.Sample, least float64, of func(host.Usage) int64) float64 {
	for _, u := range s.Replicas {
		least = max(least, mebibytes(of(u)))
	}
	return least
}
