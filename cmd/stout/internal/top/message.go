package top

import (
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// What Update takes. Each message that tells of the cell has when that was.
type (
	// Tick is the time, as it goes by.
	Tick time.Time
	// Size is that of the terminal.
	Size struct{ Width, Height int }
	// Key is one that was pressed: its name, and what it types.
	Key struct{ Name, Text string }

	// Looked is a look at the cell as a whole, or why there was none.
	Looked struct {
		At   time.Time
		Look Look
		Err  *Trouble
	}
	// Membered is who makes up the cell, and who waits for each other in it.
	Membered struct {
		At      time.Time
		Members lockapi.Members
		Circles []lockapi.Deadlock
		Err     *Trouble
	}
	// Happened is events, in their order.
	Happened struct {
		At     time.Time
		Events []lockapi.CellEvent
	}
	// Missed says that events were: what they changed has to be read again.
	Missed struct{ At time.Time }
	// Unheard says why events are not heard at present; nil where they are.
	Unheard struct {
		At  time.Time
		Err *Trouble
	}

	// LocksRead is a part of the list of locks, AgainRead are some of them, whose
	// reading began At.
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
	// DetailRead is what was read of one subject.
	DetailRead struct {
		At time.Time
		Of subject
		Detailed
	}
)

// Look is the cell as a whole.
type Look struct {
	Cell lockapi.Cell
	// Findings are what is the matter with replicas, each with its id in front,
	// and below it the command that mends it, where there is one.
	Findings []string
	// Deaf are the ids of replicas that answer, and hear no master while there is
	// one.
	Deaf []string
}

// Trouble is why something could not be read.
type Trouble struct {
	Text string   // in one line
	More []string // details, and what to do
	// Denied says that it is about who asks: the cell is there.
	Denied bool
}

// Part says which part of a list was read.
type Part struct {
	Of    string    // the prefix, or the directory
	Began time.Time // when the reading of the whole began
	At    time.Time
	First bool // what was there before goes, but for what has changed since Began
	Done  bool // the list is complete
	Cut   bool // and there is more than is kept
	Stale bool // it may be out of date
	Err   *Trouble
}

// Detailed is what there is to say of one lock, session or file.
type Detailed struct {
	Text    string           // lines, made safe to print; styled
	History *lockapi.History // of a lock
	File    *client.File     // of a file
	Stale   bool
	Err     *Trouble
}

// subject is what can be looked at closely.
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

// Want is what the model would like to know.
type Want struct {
	Page   page
	Prefix string // of the locks that the cell is to be asked for
	Dir    string
	Detail subject
	Width  int
	Paused bool
	Missed int      // lists of another count are worthless
	Nudge  int      // something happened to Detail
	Again  []string // paths of locks in sight that may have changed
}

// Wanted is what the model would like to know now.
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
