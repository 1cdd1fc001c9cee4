package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/test/crash/powerloss"
	"github.com/stoutlock/stout/test/crash/recorded"
)

// count counts the work of a run.
type count struct{ lives, rounds, crashes, events int }

// life is the history of one disk, starting empty.
type life struct {
	seed   uint64
	rng    *rand.Rand
	work   string // directory for temporary files
	points int    // crashes per round
	count  *count

	disk     *powerloss.Tree
	before   []powerloss.Event // done to it by processes that were killed
	holds    *held             // what the next process must find
	possible worlds            // what the disk may hold until that process has opened it
}

// live runs some rounds and returns the first failure.
func live(seed uint64, dir string, rounds, points int, c *count) error {
	l := &life{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 77)), work: dir, points: points, count: c,
	}
	l.goOn(powerloss.NewTree(), nil, &held{}, nil)
	for n := range rounds {
		if err := l.round(n == rounds-1); err != nil {
			return fmt.Errorf("seed %d, round %d: %w", seed, n, err)
		}
		c.rounds++
	}
	c.lives++
	return nil
}

// goOn makes the next round start on a disk.
func (l *life) goOn(disk *powerloss.Tree, before []powerloss.Event, holds *held, possible worlds) {
	l.disk, l.before, l.holds, l.possible = disk, before, holds, append(possible, worlds{{held: holds}}...)
}

// round works on the disk and loses the power at some points of that work. The
// next round starts at one of these points. Sometimes only the process is
// killed there, and the power stays.
func (l *life) round(last bool) error {
	events, err := l.record(last)
	if err != nil {
		return l.keep(l.disk, events, err)
	}
	l.count.events += len(events) - len(l.before)
	possible := l.possibilities(events)
	next, chosen := func() {}, l.rng.IntN(l.points)
	for n := range l.points {
		at := l.point(events, n)
		killed := n == chosen && l.rng.IntN(3) == 0
		disk := powerloss.NewDisk(l.disk, events[:at]...)
		left := disk.Seen()
		if !killed {
			left = disk.Lose(l.rng)
		}
		found, err := l.crash(left, possible[at])
		l.count.crashes++
		switch {
		case err != nil:
			return l.keep(left, events[:at], fmt.Errorf("power lost (or process killed: %v) before event %d of %d: %w", killed, at, len(events), err))
		case n != chosen || found.quarantined != "":
		case killed:
			next = func() { l.goOn(l.disk, slices.Clone(events[:at]), found, possible[at].outcomes()) }
		default:
			next = func() { l.goOn(left, nil, found, nil) }
		}
	}
	next()
	return nil
}

// record does the work of a round and returns the events on the disk.
func (l *life) record(last bool) ([]powerloss.Event, error) {
	disk := powerloss.NewDisk(l.disk)
	disk.Remember()
	for _, e := range l.before {
		disk.Do(e)
	}
	dir := filepath.Join(l.work, "round")
	at, err := recorded.Mount(dir, disk, pause)
	if err != nil {
		return nil, err
	}
	err = l.use(dir, at, last)
	at.Unmount()
	return disk.Events(), errors.Join(err, at.Remove())
}

// use does the work in a directory.
func (l *life) use(dir string, disk *recorded.Mounted, last bool) error {
	s, err := open(dir, l.rng.IntN(8) > 0)
	if err != nil {
		return fmt.Errorf("open once more: %w", err)
	}
	have, err := s.contents()
	if err == nil && have.String() != l.holds.String() {
		err = errors.New("differs when opened once more: " + difference(have, l.holds))
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if !have.founded {
		l.holds = &held{}
	}
	disk.Mark(opened{l.holds})
	w := newWork(s, disk, l.holds, l.rng)
	w.quarantine = last && l.rng.IntN(2) == 0
	return errors.Join(w.run(), s.Close())
}

// pause is the time that a sync takes. It is often zero, so that other
// operations overtake it in some runs only.
func pause() error {
	if rand.IntN(4) == 0 {
		time.Sleep(rand.N(300 * time.Microsecond))
	}
	return nil
}

// possibilities returns what is possible before each event, and after the last.
func (l *life) possibilities(events []powerloss.Event) []worlds {
	now := l.possible
	out := make([]worlds, 0, len(events)+1)
	for i, e := range events {
		out = append(out, now)
		if i >= len(l.before) && e.Kind == powerloss.Mark {
			now = now.after(e.Mark)
		}
	}
	return append(out, now)
}

// point draws where the power is lost. Every other time it is at a point with
// unsynced data; every fourth time it is right after a rename, if there was
// one.
func (l *life) point(events []powerloss.Event, n int) int {
	if n%4 == 3 {
		if at := l.behindRename(events); at > 0 {
			return at
		}
	}
	draw := func() int { return len(l.before) + l.rng.IntN(len(events)-len(l.before)+1) }
	at := draw()
	for range 50 {
		if n%2 == 0 || at > 0 && events[at-1].Kind != powerloss.Sync && events[at-1].Kind != powerloss.Mark {
			break
		}
		at = draw()
	}
	return at
}

// behindRename draws a position right after a rename of this round, or returns
// 0.
func (l *life) behindRename(events []powerloss.Event) int {
	var places []int
	for i := len(l.before); i < len(events); i++ {
		if events[i].Kind == powerloss.Rename {
			places = append(places, i+1)
		}
	}
	if len(places) == 0 {
		return 0
	}
	return places[l.rng.IntN(len(places))]
}

// crash opens what is left of the disk and returns what it holds.
func (l *life) crash(left *powerloss.Tree, possible worlds) (*held, error) {
	dir, err := os.MkdirTemp(l.work, "crash-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := left.Store(dir); err != nil {
		return nil, err
	}
	found, err := observe(dir, l.rng.IntN(4) > 0)
	if err != nil {
		return nil, fmt.Errorf("within %s: refused: %w", under(possible), err)
	}
	var why []string
	for _, p := range possible.closure() {
		if p.held.String() == found.String() {
			return found, nil
		}
		why = append(why, difference(found, p.held))
	}
	return nil, fmt.Errorf("within %s:\n%s", under(possible), strings.Join(why, "\nor "))
}

// under names the operations under way.
func under(w worlds) string {
	var names []string
	for _, p := range w {
		for _, o := range p.left {
			if !slices.Contains(names, o.name) {
				names = append(names, o.name)
			}
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// difference lists what is missing and what should not be there.
func difference(have, want *held) string {
	h, w := have.words(), want.words()
	var out []string
	for _, x := range w {
		if !slices.Contains(h, x) {
			out = append(out, "missing "+x)
		}
	}
	for _, x := range h {
		if !slices.Contains(w, x) {
			out = append(out, "unexpected "+x)
		}
	}
	return strings.Join(out, ", ")
}

// keep saves what explains a failure: the disk before the round, what the crash
// left, and the events that led to it.
func (l *life) keep(left *powerloss.Tree, events []powerloss.Event, failure error) error {
	dir, err := os.MkdirTemp(filepath.Dir(l.work), fmt.Sprintf("failure-%d-", l.seed))
	if err != nil {
		return errors.Join(failure, err)
	}
	var story strings.Builder
	for i, e := range events {
		fmt.Fprintf(&story, "%d %s\n", i, describe(e))
	}
	for name, t := range map[string]*powerloss.Tree{"before": l.disk, "left": left} {
		below := filepath.Join(dir, name)
		err = errors.Join(err, os.Mkdir(below, 0o700), t.Store(below))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "events.txt"), []byte(story.String()), 0o600))
	return errors.Join(fmt.Errorf("%w\nkept in %s", failure, dir), err)
}

func describe(e powerloss.Event) string {
	switch e.Kind {
	case powerloss.Mark:
		return fmt.Sprint(e.Mark)
	case powerloss.Make, powerloss.Remove, powerloss.Rename:
		return fmt.Sprintf("%v %d: %s %s in %d", e.Kind, e.Node, e.Name, e.To, e.Dir)
	case powerloss.Sync:
		return fmt.Sprintf("sync %d of everything before %d", e.Node, e.Began)
	}
	return fmt.Sprintf("%v %d: %d+%d", e.Kind, e.Node, e.Off, len(e.Data))
}
