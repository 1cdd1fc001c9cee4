package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// history are faults of a replica's histories.
func history() []Mutant {
	return []Mutant{
		{"forced-told-as-released", "guarantees", "a history shows why each hold ended",
			"another session than the holder's releases a lock by force",
			overlay.Edit{File: "replica/events/event.go",
				Old: "\t\tcase state.Forced:\n\t\t\treturn \"forced\"",
				New: "\t\tcase state.Forced:\n\t\t\treturn \"released\""}},
		{"past-reaches-too-far", "guarantees", "a history is complete as far back as it claims to reach",
			"a replica has received a snapshot, or has dropped old events",
			overlay.Edit{File: "replica/events/past.go",
				Old: "p := Past{Oldest: floor, Revision: published}",
				New: "p := Past{Oldest: 0, Revision: published}"}},
		{"wait-from-the-last-call", "guarantees", "a history shows how long the holder had waited",
			"a session that waits asks for its place to be kept",
			overlay.Edit{File: "replica/state/acquire.go",
				Old: "\tkept.Keep = true\n",
				New: "\tkept.Keep, kept.Since = true, e.Now\n"}},
		{"masters-behind-the-last-event", "guarantees", "a history shows the changes of master between the events of the path",
			"there was another master before the first shown event of the path",
			overlay.Edit{File: "replica/events/past.go",
				Old: "if masters < limit && own < limit {",
				New: "if own < limit && own > 0 {"}},
		{"end-by-the-holder", "guarantees", "a history shows the principal that ended a hold",
			"the cell ends an expired session",
			overlay.Edit{File: "replica/state/lock.go",
				Old: "Hold: h, Reason: why, Ending: e.ending()})",
				New: "Hold: h, Reason: why, Ending: Ending{At: e.Now, By: h.Session, SilentMS: e.silentMS}})"}},
		{"told-again-after-a-snapshot", "guarantees", "every event is reported exactly once",
			"a replica that has events receives a snapshot",
			overlay.Edit{File: "replica/events/ring.go",
				Old: "\tr.events, r.bytes, r.dead = nil, 0, 0\n",
				New: ""}},
	}
}
