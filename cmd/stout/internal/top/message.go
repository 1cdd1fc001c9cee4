package top

import (
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Messages for Update. Those about the cell carry their time.
type (
	// Tick is the current time.
	Tick time.Time
	// Size is the size of the terminal.
	Size struct{ Width, Height int }
	// Key is a pressed key: its name and its text.
	Key struct{ Name, Text string }

	// Looked is a look at the cell as a whole, or its error.
	Looked struct {
		At   time.Time
		Look Look
		Err  *Trouble
	}
	// Membered has the members and the deadlocks.
	Membered struct {
		At      time.Time
		Members lockapi.Members
		Cycles  []lockapi.Deadlock
		Err     *Trouble
	}
	// Happened has events in order.
	Happened struct {
		At     time.Time
		Events []lockapi.CellEvent
	}
	// Missed reports lost events: everything must be read again.
	Missed struct{ At time.Time }
	// Unheard has the error of the event stream; nil while it works.
	Unheard struct {
		At  time.Time
		Err *Trouble
	}

	// LocksRead is a part of the list of locks. AgainRead has single locks;
	// their reading began at At.
	LocksRead struct {
		Part
		Locks []lockapi.Lock
	}
	AgainRead struct {
		At    time.Time
		Locks []lockapi.Lock
	}
	// SessionsRead is a part of the list of sessions.
	SessionsRead struct {
		Part
		Sessions []lockapi.SessionState
	}
	// DirRead is a part of a directory.
	DirRead struct {
		Part
		Entries []client.DirEntry
	}
	// DetailRead is a reading of one subject.
	DetailRead struct {
		At time.Time
		Of subject
		Detailed
	}
)

// Look is the cell as a whole.
type Look struct {
	Cell lockapi.Cell
	// Findings describes problems of replicas, each beginning with the
	// replica's id, followed by the command that repairs it, if there is one.
	Findings []string
	// Unreached lists replicas that answer but do not reach the master.
	Unreached []string
}

// Trouble is why something could not be read.
type Trouble struct {
	Text string   // one line
	More []string // details and advice
	// Denied reports a refusal of this caller.
	Denied bool
}

// Part describes a part of a list.
type Part struct {
	Of    string    // the prefix, or the directory
	Began time.Time // when the reading of the list began
	At    time.Time
	First bool // first part: drop older entries, except those changed since Began
	Done  bool // the list is complete
	Cut   bool // the list was cut off
	Stale bool // it may be out of date
	Err   *Trouble
}

// Detailed is the description of one lock, session or file.
type Detailed struct {
	Text    string           // lines, made safe to print; styled
	History *lockapi.History // of a lock
	File    *client.File     // of a file
	Stale   bool
	Err     *Trouble
}

// subject is a lock, session or file that can be opened.
type subject struct {
	Kind kind
	Name string // the path, or the id
}

type kind int

const (
	noKind kind = iota
	lockKind
	sessionKind
	fileKind
)

// Want is the data that the model needs.
type Want struct {
	Page   page
	Prefix string // prefix of the locks to list
	Dir    string
	Detail subject
	Width  int
	Paused bool
	Missed int      // lists of another count are outdated
	Nudge  int      // counts events of Detail
	Again  []string // visible locks that may have changed
}

// Wanted returns the data that the model needs now.
func (m *Model) Wanted() Want {
	w := Want{Page: m.page, Dir: m.dir, Detail: m.detail, Width: m.width, Paused: m.paused, Missed: m.missed, Nudge: m.nudge}
	if m.locks.cut || m.locks.of != "" {
		if search := m.lists[locksPage].search; !m.typing && len(search) > 0 && search[0] == '/' {
			w.Prefix = search
		}
	}
	if m.page == locksPage && m.detail.Kind == noKind {
		w.Again = m.doubtful()
	}
	return w
}
