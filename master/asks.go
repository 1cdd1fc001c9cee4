package master

import "github.com/stoutlock/stout/replica/state"

// authorize identifies the caller and checks the rights that it asks for. All
// rights are decided here: every call passes through admit, linear, read or
// Authorize.
func (o *Options) authorize(s *state.State, by *Caller) error {
	switch {
	case by.Ask.Right == Nothing:
		return nil
	case o.awaitsFounding(s):
		return errFounding()
	case by.free(s):
		return nil
	}
	if err := by.identify(s); err != nil {
		return err
	}
	if by.Told != nil {
		*by.Told = Checked{Principal: by.Principal, How: by.How, Adopted: by.Told.Adopted}
	}
	if !s.AccessOn {
		return by.WhileOff
	}
	by.adopts = ""
	others, err := by.may(s, &by.Ask)
	if by.Told != nil {
		by.Told.Others = others
	}
	if err == nil && by.For.Session != "" {
		_, err = by.may(s, &by.For)
	}
	for i := 0; err == nil && i < len(by.Also); i++ {
		_, err = by.may(s, &by.Also[i])
	}
	return err
}

// may checks one right, and sets by.adopts if the call adopts a session by it.
func (by *Caller) may(s *state.State, ask *Ask) (others bool, err error) {
	adopts, others, err := by.who().May(s, ask)
	if adopts != "" {
		by.adopts = adopts
	}
	return others, err
}

func errFounding() error {
	return errNoMaster("the cell is being founded with access on, which needs all of its replicas and their found-token-file")
}

// Authorize checks a call that this replica answers from its own state: about the
// replica itself, or for events, which WatchEvents checks again. A refusal
// holds only if the replica may answer from its own state. Otherwise it may
// not know a new token yet, and the error is no_master.
func (m *Master) Authorize(by *Caller) error {
	err := m.opts.authorize(m.log.State(), by)
	if err != nil && (by.Secret != nil || by.Principal != "") {
		if _, _, behind := m.ownState(); behind != nil {
			return behind
		}
	}
	return err
}

// authorize checks a call that is served in this office.
func (o *office) authorize(by *Caller) error {
	s := o.log.State()
	if err := o.opts.authorize(s, by); err != nil || by.adopts == "" {
		return err
	}
	return o.adopt(by)
}

// adopt makes a session without a principal the caller's. This is a change of
// its own, which the audit log records for every type of call.
func (o *office) adopt(by *Caller) error {
	if err := o.ReadyFor(&state.AdoptSession{}); err != nil {
		return err
	}
	if by.Told != nil {
		by.Told.Adopted = by.adopts
	}
	if by.Adopts != nil {
		if err := by.Adopts(by.found()); err != nil {
			return err
		}
	}
	r, err := o.propose(by, &state.AdoptSession{Session: by.adopts, Principal: by.Principal})
	if err != nil || r == state.Done {
		return err
	}
	if by.Told != nil {
		by.Told.Adopted = ""
	}
	if r == state.Conflict { // another principal has adopted it first
		return by.who().Denied("none", "")
	}
	return nil
}
