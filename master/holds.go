package master

import (
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// Every reply shows a hold through one of the functions of this file.

// pathOf returns the path of a claim: a hold or a wait.
func pathOf(hold *state.Hold, wait *state.Wait) string {
	if hold != nil {
		return hold.Path
	}
	return wait.Path
}

func mode(m state.Mode) lockapi.Mode {
	if m == state.Shared {
		return lockapi.Shared
	}
	return lockapi.Exclusive
}

func stateMode(m lockapi.Mode) state.Mode {
	if m == lockapi.Shared {
		return state.Shared
	}
	return state.Exclusive
}

func sequencer(h *state.Hold) string {
	return lockapi.Sequencer{Mode: mode(h.Mode), Token: h.Token, Path: h.Path}.String()
}

// grantOf returns the answer of an acquire that got its lock.
func grantOf(h *state.Hold) lockapi.Grant {
	return lockapi.Grant{Path: h.Path, State: lockapi.StateHeld, Session: h.Session, Handle: h.Handle,
		Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h), GrantedAt: new(time.Unix(0, h.GrantedAt).UTC())}
}

// holderOf returns a hold as a lock lists it. The caller fills in what belongs
// to the session: its name, metadata and principal.
func holderOf(h *state.Hold) lockapi.Holder {
	return lockapi.Holder{Session: h.Session, Handle: h.Handle, Mode: mode(h.Mode), Token: h.Token,
		GrantedAt: time.Unix(0, h.GrantedAt).UTC(), LockDelayMS: h.DelayMS}
}

// sessionHoldOf returns a hold as its session lists it.
func sessionHoldOf(h *state.Hold) lockapi.Hold {
	return lockapi.Hold{Path: h.Path, Handle: h.Handle, Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h)}
}

// eventHoldOf returns a hold as an event of the cell shows it.
func eventHoldOf(h *state.Hold, sessionName string) *lockapi.EventHold {
	return &lockapi.EventHold{Session: h.Session, SessionName: sessionName, Handle: h.Handle, Mode: mode(h.Mode), Token: h.Token}
}

// queuedOf returns the answer of an acquire that waits, at a position from 1.
func queuedOf(w *state.Wait, position int) lockapi.Grant {
	return lockapi.Grant{Path: w.Path, State: lockapi.StateQueued, Session: w.Session, Handle: w.Handle,
		Mode: mode(w.Mode), Position: max(1, position)}
}
