package master

import (
	"crypto/rand"
	"time"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// A cell that is founded with access on serves nobody before that is in its log. All
// of its founders have agreed on that, and have the same token of the root. The first
// master puts it there; until then it refuses all calls as if there were no master.
// That goes, too, for a master whose token was taken away in between.

// foundRetry is the pause after an attempt that has failed: not all members have told
// yet that they know what access is.
const foundRetry = 100 * time.Millisecond

// awaitsFounding reports whether access is yet to be enabled before anything else is
// done in a cell in which nothing has been done but to open offices.
func (o *Options) awaitsFounding(s *state.State) bool {
	return (o.FoundToken != nil || o.FoundedWithAccess) && !s.AccessOn && s.Revision == s.Epoch && s.SessionCount() == 0 &&
		s.TokenCount() == 0 && s.Policy().RuleCount() == 0 && s.Policy().GroupCount() == 0
}

// found enables access where the cell awaits that, and goes on until it is done or the
// office has ended.
func (o *office) found() {
	for o.opts.awaitsFounding(o.log.State()) {
		if o.opts.FoundToken == nil {
			o.logger.Error().Msg("this cell is founded with access on, and this master has no token of the root to begin with: nobody is served; give it the found-token-file that the others have, and restart it")
			return
		}
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
	_, err := o.propose(&Caller{}, op)
	return err
}
