package master

import (
	"crypto/rand"
	"time"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// A cell founded with access on serves no calls until its log has that setting.
// All founders have agreed on it and have the same token of the root. The first
// master proposes it; until then every call is refused with no_master. The same
// holds for a master that lost its token in the meantime.

// foundRetry is the pause after a failed attempt: some members may not have
// reported yet that they know access.
const foundRetry = 100 * time.Millisecond

// awaitsFounding reports whether access must be enabled before anything else is
// done. It is so in a cell in which only offices were opened so far.
func (o *Options) awaitsFounding(s *state.State) bool {
	return (o.FoundToken != nil || o.FoundedWithAccess) && !s.AccessOn && s.Revision == s.Epoch && s.SessionCount() == 0 &&
		s.TokenCount() == 0 && s.Policy().RuleCount() == 0 && s.Policy().GroupCount() == 0
}

// found enables access if the cell awaits that. It retries until it succeeds or
// the office ends.
func (o *office) found() {
	for o.opts.awaitsFounding(o.log.State()) {
		if o.opts.FoundToken == nil {
			o.logger.Error().Msg("this cell is founded with access on, but this master has no root token: calls are refused; give it the found-token-file that the others have, and restart it")
			return
		}
		if o.enableAtFounding() == nil {
			o.logger.Info().Msg("the cell was founded with access on")
			o.opts.happened(o.log, AccessFounded, o.opts.ID, o.epoch)
			return
		}
		select {
		case <-time.After(foundRetry):
		case <-o.done:
			return
		}
	}
}

func (o *office) enableAtFounding() error {
	op := &state.EnableAccess{Token: state.Token{ID: rand.Text(), Sum: o.opts.FoundToken[:], Principal: access.Root, Note: "with which the cell was founded"}}
	if err := o.ReadyFor(op); err != nil {
		return err
	}
	_, err := o.propose(&Caller{}, op)
	return err
}
