package master

import (
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

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
	by.adopts = nil
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

// may checks one right, and adds to by.adopts if the call adopts a session by it.
func (by *Caller) may(s *state.State, ask *Ask) (others bool, err error) {
	adopts, others, err := by.who().May(s, ask)
	if adopts != "" && !slices.Contains(by.adopts, adopts) {
		by.adopts = append(by.adopts, adopts)
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
	if err := o.opts.authorize(s, by); err != nil || len(by.adopts) == 0 {
		return err
	}
	return o.adopt(by)
}

// adopt makes sessions without a principal the caller's. This is a change of
// its own for each, which the audit log records for every type of call.
func (o *office) adopt(by *Caller) error {
	if err := o.ReadyFor(&state.AdoptSession{}); err != nil {
		return err
	}
	if by.Told != nil {
		by.Told.Adopted = strings.Join(by.adopts, " ")
	}
	if by.Adopts != nil {
		if err := by.Adopts(by.found()); err != nil {
			return err
		}
	}
	var adopted []string
	var denied error
	for _, session := range by.adopts {
		switch r, err := o.propose(by, &state.AdoptSession{Session: session, Principal: by.Principal}); {
		case err != nil:
			return err
		case r == state.Done:
			adopted = append(adopted, session)
		case r == state.Conflict: // another principal has adopted it first
			denied = by.who().Denied("none", "")
		}
	}
	if by.Told != nil {
		by.Told.Adopted = strings.Join(adopted, " ")
	}
	return denied
}
