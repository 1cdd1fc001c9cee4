package simcell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/rafttransport"
	"github.com/stoutlock/stout/replica/state"
)

// These checks compare the library with its log within one process.

// goesForward checks that a process never goes back in what it has applied.
func (o *oracle) goesForward(p *process, applied uint64, s *state.State) {
	if applied != p.applied {
		o.w.stats.check("applied index")
	}
	switch {
	case applied < p.applied:
		o.w.fail("the library of %s has applied entry %d, and earlier entry %d", p.m.id, applied, p.applied)
	case p.seen != nil && s.Index < p.seen.Index:
		o.w.fail("the state of %s is at entry %d, and was at entry %d", p.m.id, s.Index, p.seen.Index)
	}
	p.applied = applied
}

// goesBy checks that the library uses the last configuration of its log, or of
// its snapshot if the log has none after that. It is called before entries are
// stored: the library has processed all earlier entries.
func (o *oracle) goesBy(d *mounted) {
	if d.p.replica == nil || d.p.dead() || o.w.failed() {
		return
	}
	last, want := d.snapshot.index, d.snapshot.conf
	for index, conf := range d.confs {
		if index > last {
			last, want = index, conf
		}
	}
	if last == 0 {
		return
	}
	o.w.stats.check("configuration of the library")
	var got []string
	for _, m := range d.p.replica.Members() {
		got = append(got, fmt.Sprintf("%s at %s votes: %v", admission.ServerID(m.ID, m.Directory), m.At, m.Voter))
	}
	if slices.Sort(got); !slices.Equal(got, listed(want)) {
		o.w.fail("the library of %s uses [%s]; the last configuration, as of entry %d, is [%s]",
			d.p.m.id, strings.Join(got, ", "), last, strings.Join(listed(want), ", "))
	}
}

// goesOn checks that a log has no gap: an entry follows the last one, or the
// latest snapshot. Entries before a gap may never have been committed.
func (o *oracle) goesOn(d *mounted, next uint64) {
	if d.high != 0 && next != d.high+1 && !d.p.dead() {
		o.w.fail("the log of %s ends at entry %d and continues at entry %d", d.p.m.id, d.high, next)
	}
}

// listed returns the servers of a configuration.
func listed(c raft.Configuration) (all []string) {
	for _, s := range c.Servers {
		_, at := rafttransport.SplitAddress(s.Address)
		all = append(all, fmt.Sprintf("%s at %s votes: %v", s.ID, at, s.Suffrage == raft.Voter))
	}
	slices.Sort(all)
	return all
}
