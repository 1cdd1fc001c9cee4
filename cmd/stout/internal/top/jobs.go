package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Times between questions to the cell, and the limit for an answer.
const (
	beat     = time.Second // between looks, and between readings of visible rows
	patience = 5 * time.Second
	// Members are read every third beat. There is a pause between batches of
	// events: a screen for each would be too fast to see.
	memberBeats = 3
	batchFor    = 100 * time.Millisecond
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
		all = append(all, func() tea.Msg {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			return done{j, read(ctx)}
		})
	}
	return tea.Batch(all...)
}

// ended handles the end of a job's reading. A pause does not hold back what is
// read in it.
func (m *Model) ended(d done) {
	d.job.running = false
	if d.job.live {
		d.change(m)
	} else {
		m.happens(d.change)
	}
	d.job.due = m.clock.Add(d.job.pace(m))
}

// soon makes what is shown be read at once.
func (m *Model) soon() {
	for _, j := range m.jobs {
		if j.shown {
			j.due = time.Time{}
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
// about it. A pause does not end that.
func (m *Model) readDetail() reader {
	of, width, stale, source := m.detail, m.width, m.stale(), m.source
	if of.Kind == "" || !m.unread && (of.Kind == File || m.paused) {
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

// received is an event of the stream, or the stream's state.
type received struct {
	event *lockapi.CellEvent
	state change
}

// occurred is a batch of events as a change.
type occurred struct{ change change }

// follow sends the events from now on, until ctx ends. After the first one,
// every gap is reported.
func follow(ctx context.Context, c *client.Client, source Source, to chan<- received) {
	send := func(r received) {
		select {
		case to <- r:
		case <-ctx.Done():
		}
	}
	state := func(err error) {
		trouble := describe(source, err)
		send(received{state: func(m *Model) { m.unheard = trouble }})
	}
	after, known := uint64(client.FromNow), false
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, patience)
		now, err := c.Revision(bounded)
		cancel()
		if state(err); err != nil {
			sleep(ctx, beat)
			continue
		}
		if !known {
			after, known = now, true
		}
		for e, err := range c.Watch(ctx, after) {
			switch {
			case err != nil:
				state(err)
				sleep(ctx, beat)
				continue
			case e.Compacted != nil:
				after = e.Compacted.Revision
				send(received{state: func(m *Model) { m.miss(m.clock) }})
			default:
				after = max(after, e.Revision)
				send(received{event: &e.CellEvent})
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// receive waits for events, and for a moment for more.
func (m *Model) receive() tea.Msg {
	var batch []*lockapi.CellEvent
	at, full := time.Time{}, (<-chan time.Time)(nil)
	for len(batch) < mostEvents {
		select {
		case r := <-m.received:
			if at = time.Now(); r.state != nil {
				return occurred{func(m *Model) { m.occur(at, batch); r.state(m) }}
			}
			if batch = append(batch, r.event); full == nil {
				full = time.After(batchFor)
			}
		case <-full:
			return occurred{func(m *Model) { m.occur(at, batch) }}
		}
	}
	return occurred{func(m *Model) { m.occur(at, batch) }}
}

func (m *Model) occur(at time.Time, batch []*lockapi.CellEvent) {
	for _, e := range batch {
		m.happened(at, *e)
	}
}
