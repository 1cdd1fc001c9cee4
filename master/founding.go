package master

import (
	"crypto/rand"
	"time"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// A cell that is founded with access on serves nobody before that is in its log. The
// first master that has the root's token puts it there; until then, whoever is master
// and has one refuses all calls as if there were no master.

// foundRetry is the pause after an attempt that has failed: not all members have told
// yet that they know what access is.
const foundRetry = 100 * time.Millisecond

// awaitsFounding reports whether access is yet to be enabled before anything else is
// done in a cell in which nothing has been done but to open offices.
func (o *Options) awaitsFounding(s *state.State) bool {
	return o.FoundToken != nil && !s.AccessOn && s.Revision == s.Epoch && s.SessionCount() == 0 &&
		s.TokenCount() == 0 && s.Policy().RuleCount() == 0 && s.Policy().GroupCount() == 0
}

// found enables access where the cell awaits that, and goes on until it is done or the
// office has ended.
func (o *office) found() {
	for o.opts.awaitsFounding(o.log.State()) {
		if o.enableAtFounding() == nil {
			o.logger.Info().Msg("the cell was founded with access on")
			o.opts.happened(o.log, AccessFounded, o.opts.ID, o.epoch)
			return
		}
		t := time.NewTimer(foundRetry)
		select {
		case <-t.C:
		case <-o.done:
			t.Stop()
			return
		}
	}
}

func (o *office) enableAtFounding() error {
	op := &state.EnableAccess{Token: state.Token{ID: rand.Text(), Sum: o.opts.FoundToken[:], Principal: access.Root, Note: "with which the cell was founded"}}
	if err := o.readyFor(op); err != nil {
		return err
	}
	_, err := o.propose(Caller{}, op)
	return err
}
