package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// history are faults of what a replica tells of the past.
func history() []Mutant {
	return []Mutant{
		{"forced-told-as-released", "guarantees", "a history tells why each hold ended",
			"somebody else than the holder releases a lock, and says that it is by force",
			overlay.Edit{File: "replica/events/event.go",
				Old: "\t\tcase state.Forced:\n\t\t\treturn \"forced\"",
				New: "\t\tcase state.Forced:\n\t\t\treturn \"released\""}},
		{"past-reaches-too-far", "guarantees", "a history leaves nothing out as far back as it says that it reaches",
			"a replica has been sent a snapshot, or has forgotten old events",
			overlay.Edit{File: "replica/events/past.go",
				Old: "p := Past{Oldest: floor, Revision: told}",
				New: "p := Past{Oldest: 0, Revision: told}"}},
		{"wait-from-the-last-call", "guarantees", "a history tells for how long the holder had waited",
			"a session that waits asks for its place to be kept",
			overlay.Edit{File: "replica/state/acquire.go",
				Old: "\t\tkept.Keep = true\n",
				New: "\t\tkept.Keep, kept.Since = true, e.Now\n"}},
		{"masters-behind-the-last-event", "guarantees", "a history tells the changes of master between the events of the path",
			"there was another master before all that is told of the path",
			overlay.Edit{File: "replica/events/past.go",
				Old: "if masters < limit && own < limit {",
				New: "if own < limit && own > 0 {"}},
		{"end-by-the-holder", "guarantees", "a history tells who ended a hold",
			"an expired session is ended by the cell",
			overlay.Edit{File: "replica/state/lock.go",
				Old: "Hold: h, Reason: why, Ending: e.ending()})",
				New: "Hold: h, Reason: why, Ending: Ending{At: e.Now, By: h.Session, SilentMS: e.silentMS}})"}},
		{"told-again-after-a-snapshot", "guarantees", "nothing is told twice, nor left out",
			"a replica that has events is sent a snapshot",
			overlay.Edit{File: "replica/events/ring.go",
				Old: "\tr.events, r.bytes, r.dead = nil, 0, 0\n",
				New: ""}},
	}
}
