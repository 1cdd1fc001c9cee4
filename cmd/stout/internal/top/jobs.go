package top

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
)

// Times between questions to the cell, and the limit for an answer.
const (
	beat     = time.Second // between looks, and between readings of visible rows
	patience = 5 * time.Second
	listTime = time.Minute // for a whole list; patience applies to each part
	// Members are read every third beat. There is a pause between parts of a
	// list.
	memberBeats = 3
	partPause   = 50 * time.Millisecond
	// A caller without the right to observe the cell asks less often by this
	// factor: each refusal is a line in the audit log.
	deniedBeats = 30
)

// change is an update of a model.
type change func(*Model)

// reader reads from the cell and returns what changes by that. It runs beside
// the model and must not use it.
type reader func(ctx context.Context) change

// job reads something repeatedly, one reading at a time.
type job struct {
	read    func(*Model) reader // nil if there is nothing to read now
	pace    func(*Model) time.Duration
	limit   time.Duration // of one reading
	cancel  context.CancelFunc
	shown   bool // what it reads depends on what is shown
	live    bool // it continues in a pause
	running bool
	due     time.Time
}

// done is the end of a job's reading.
type done struct {
	job    *job
	change change
}

// start returns the commands of the jobs that are due.
func (m *Model) start() tea.Cmd {
	var all []tea.Cmd
	for _, j := range m.jobs {
		if j.running || m.clock.Before(j.due) {
			continue
		}
		read := j.read(m)
		if read == nil {
			continue
		}
		j.running = true
		ctx, cancel := context.WithTimeout(context.Background(), j.limit)
		j.cancel = cancel
		all = append(all, func() tea.Msg {
			defer cancel()
			c := read(ctx)
			if errors.Is(ctx.Err(), context.Canceled) { // something else is shown now
				c = nil
			}
			return done{j, c}
		})
	}
	return tea.Batch(all...)
}

// ended handles the end of a job's reading. A canceled one begins again at
// once. A pause does not hold back what is read in it.
func (m *Model) ended(d done) {
	d.job.running = false
	switch {
	case d.change == nil:
		return
	case d.job.live:
		d.change(m)
	default:
		m.happens(d.change)
	}
	d.job.due = m.clock.Add(d.job.pace(m))
}

// soon makes what is shown be read at once.
func (m *Model) soon() {
	for _, j := range m.jobs {
		if !j.shown {
			continue
		}
		j.due = time.Time{}
		if j.cancel != nil {
			j.cancel()
		}
	}
}

// pace returns the time between readings that need the right to observe the
// cell.
func (m *Model) pace() time.Duration {
	if m.lost != nil && m.lost.Denied {
		return deniedBeats * beat
	}
	return beat
}

// lookPace returns the time between looks: shorter where the lease is shown, so
// that renewals are visible.
func (m *Model) lookPace() time.Duration {
	if m.page == 0 && m.detail.Kind == "" {
		return m.pace() * 3 / 10
	}
	return m.pace()
}

func options(stale bool) []client.ReadOption {
	if stale {
		return []client.ReadOption{client.Stale()}
	}
	return nil
}

// describe explains an error, which may take a call of the cell.
func describe(source Source, err error) *Trouble {
	if err == nil {
		return nil
	}
	return source.Describe(err)
}

func (m *Model) readCell() reader {
	if m.paused {
		return nil
	}
	source, width := m.source, m.width
	return func(ctx context.Context) change {
		look, err := source.Look(ctx, width)
		at, trouble := time.Now(), describe(source, err)
		return func(m *Model) { m.looked(at, look, trouble) }
	}
}

func (m *Model) readMembers() reader {
	if m.paused {
		return nil
	}
	source, width, stale := m.source, m.width, m.stale()
	return func(ctx context.Context) change {
		members, err := source.Members(ctx, width, stale)
		at, trouble := time.Now(), describe(source, err)
		return func(m *Model) {
			if m.noMembers = trouble; trouble == nil {
				m.members, m.membersAt = members, at
			}
		}
	}
}

// readDetail reads the open subject: each second, or for a file after an event
// about it or a reading that is outdated. A pause does not end that.
func (m *Model) readDetail() reader {
	of, width, stale, source := m.detail, m.width, m.stale(), m.source
	if of.Kind == "" || !m.unread && (m.paused || of.Kind == File && !m.read.outdated(stale)) {
		return nil
	}
	m.unread = false
	return func(ctx context.Context) change {
		text, err := source.Read(ctx, of, width, stale)
		read := reading{of: of, at: time.Now(), text: text, stale: stale, err: describe(source, err)}
		return func(m *Model) {
			if of == m.detail {
				m.read = read
			}
		}
	}
}

// outdated reports whether an open file must be read again without an event: after
// a failure, or when there is a master again. A refusal is not repeated.
func (r *reading) outdated(stale bool) bool {
	return r.stale && !stale || r.err != nil && !r.err.Denied
}

// occurred is what happened in the cell.
type occurred struct{ change change }

// pastEvents is how far back in revisions the first events are.
const pastEvents = 200

// follow sends the last events that the replica remembers, and those from now
// on, until ctx ends. Every gap from now on is reported.
func follow(ctx context.Context, c *client.Client, source Source, send func(change)) {
	state := func(err error) {
		trouble := describe(source, err)
		send(func(m *Model) { m.unheard = trouble })
	}
	after, known, began := uint64(client.FromNow), false, uint64(0)
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, patience)
		now, err := c.Revision(bounded)
		cancel()
		if state(err); err != nil {
			_ = ask.Sleep(ctx, beat)
			continue
		}
		if !known {
			after, known, began = now-min(now, pastEvents), true, now
		}
		for e, err := range c.Watch(ctx, after) {
			if e.Compacted != nil && after < began && e.Compacted.Oldest <= began {
				after = e.Compacted.Oldest
				break
			}
			at := time.Now()
			switch {
			case err != nil:
				state(err)
				_ = ask.Sleep(ctx, beat)
			case e.Compacted != nil:
				after = e.Compacted.Revision
				send(func(m *Model) { m.miss(at) })
			case e.Revision <= began:
				after = max(after, e.Revision)
				send(func(m *Model) { m.addEvent(time.Time{}, e.CellEvent) })
			default:
				after = max(after, e.Revision)
				send(func(m *Model) { m.happened(at, e.CellEvent) })
			}
		}
	}
}
