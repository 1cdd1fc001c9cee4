package master

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Silence has this master fall silent for a while, so that it can be rehearsed what
// becomes of the cell when a master hangs: its office ends at once and without an
// entry that says so, its log is cut off from the others, and calls are told that
// there is no master. The others have to notice, elect, and outwait its lease.
// Then it follows again. It is unsafe, and refused, where the others that are well
// would be no majority.
//
// To the log it is a partition, which it bears whenever it comes and goes. If the
// silence is over before another was elected, this replica opens a new office, as
// after any that has ended.
func (m *Master) Silence(ctx context.Context, req SilenceRequest) (lockapi.Silenced, error) {
	err := m.allowed(func(o *office) error {
		if err := o.admit(&req.Caller); err != nil {
			return err
		}
		if err := req.Validate(); err != nil {
			return err
		}
		seen, err := m.look(ctx)
		if err != nil {
			return err
		}
		return seen.goesOnWithout(m.opts.ID)
	})
	if err != nil {
		return lockapi.Silenced{}, err
	}
	o := m.beginSilence()
	if o == nil {
		return lockapi.Silenced{}, errNotMaster()
	}
	d := time.Duration(req.ForMS) * time.Millisecond
	m.log.Silence(d)
	o.logger.Warn().Dur("for_ms", d).Msg("this replica falls silent, as it was told to")
	o.end(errors.New("this replica was told to be silent"))
	m.endSilenceIn(d)
	return lockapi.Silenced{Master: m.opts.ID, ForMS: req.ForMS}, nil
}

// goesOnWithout says why the cell would not, without a member for a while.
func (r roll) goesOnWithout(id string) error {
	all, well := 0, 0
	for _, v := range r.members {
		if !v.Voter {
			continue
		}
		all++
		if v.well && v.ID != id {
			well++
		}
	}
	changing := slices.ContainsFunc(r.members, func(a member) bool {
		return slices.ContainsFunc(r.members, func(b member) bool { return a.ID == b.ID && a.Directory != b.Directory })
	})
	switch {
	case well < all/2+1:
		return lockapi.Errorf(lockapi.CodeUnsafe, "without replica %s %d of %d members that vote are well, and %d have to be for the cell to go on; mend the others first",
			id, well, all, all/2+1)
	case changing:
		return lockapi.Errorf(lockapi.CodeUnsafe, "a change of the members is under way; wait until it is through")
	}
	return nil
}

// beginSilence returns the office that is to end, and lets no other be opened; nil
// where there is none, or it is being given up.
func (m *Master) beginSilence() *office {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.office == nil || m.handing || m.isSilent() {
		return nil
	}
	m.silent = math.MaxInt64 // see endSilenceIn
	m.broadcast()
	return m.office
}

// isSilent reports whether this replica is silent. m.mu is held.
func (m *Master) isSilent() bool { return m.silent != 0 && m.opts.Clock() < m.silent }

// silenceLook is how often is looked whether a silence is over. Timers stand still
// while the machine is suspended; the clock, by which the log is heard again, goes on.
const silenceLook = time.Second

// endSilenceIn lets an office be opened again after d of the clock. The log is silent
// already, so that it is heard again first.
func (m *Master) endSilenceIn(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = m.opts.Clock() + d
	switch look := min(d, silenceLook); {
	case m.closing:
	case m.silence == nil:
		m.silence = time.AfterFunc(look, m.endSilence)
	default:
		m.silence.Reset(look)
	}
}

// endSilence tells whoever waits that the silence is over, as soon as it is.
func (m *Master) endSilence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch left := m.silent - m.opts.Clock(); {
	case m.closing || m.silent == 0:
	case left > 0:
		m.silence.Reset(min(left, silenceLook))
	default:
		m.silent = 0
		m.broadcast()
		m.opts.Logger.Info().Msg("the silence is over")
	}
}
