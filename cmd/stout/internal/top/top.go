// Package top is stout top, a live view of a cell on a terminal.
//
// It has two parts. The model (Model) holds what is known and what is shown,
// without clock, goroutine or terminal: Update takes one message after another,
// View returns the screen, and Wanted the data that the model needs. The driver
// reads that data from the cell on its own goroutines, and Run connects both to
// a terminal.
//
// Nothing here changes the cell.
package top

import (
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// page is one of the views, numbered by its key.
type page int

const (
	cellPage page = iota + 1
	locksPage
	sessionsPage
	filesPage
	eventsPage
	membersPage
)

var titles = map[page]string{
	cellPage: "Cell", locksPage: "Locks", sessionsPage: "Sessions",
	filesPage: "Files", eventsPage: "Events", membersPage: "Members",
}

// Limits of stored and requested data.
const (
	mostListed = 20_000 // locks, sessions or entries of a directory
	mostEvents = 2_000
	mostAgain  = 8                // visible rows to read again each second
	traceFor   = 10 * time.Second // how long a freed lock stays visible
	noteFor    = time.Minute
	oldAfter   = 5 * time.Second // the age from which a reading is marked
)

// Model is the state of a cell and of the view. Its methods are for one
// goroutine.
type Model struct {
	paint         paint
	zone          *time.Location
	width, height int
	clock         time.Time // the actual time
	now           time.Time // the displayed time, which stops while paused

	page   page
	detail subject // the open subject, if its kind is not noKind
	help   bool
	typing bool // the search
	over   bool
	lists  map[page]*list
	scroll int // first line of a detail or of the help

	paused  bool
	held    []any // messages received while paused
	dropped bool  // more events came than fit

	look      Look
	lookedAt  time.Time // of the last successful look
	lost      *Trouble  // why the last look failed
	lostSince time.Time
	master    string
	members   lockapi.Members
	membersAt time.Time
	noMembers *Trouble
	cycles    []lockapi.Deadlock
	notes     []note

	events   []seen // newest first
	unheard  *Trouble
	locks    table[*lockRow]
	folded   map[string]bool
	sessions table[*sessionRow]
	files    table[*fileRow]
	dir      string
	reading  reading
	nudge    int // counts events of the open subject
	missed   int // how often events were missed
}

// note is a line above the page, for a while.
type note struct {
	at   time.Time
	text string
	turn bool // about mastership; hidden without a master
}

// seen is an event and when it was received.
type seen struct {
	at time.Time
	lockapi.CellEvent
}

// reading is the last reading of the open subject.
type reading struct {
	of subject
	at time.Time
	Detailed
}

// New returns an empty model. Colour uses the terminal's own sixteen colours,
// which are readable on dark and on light.
func New(colour bool, zone *time.Location) *Model {
	m := &Model{paint: newPaint(colour), zone: zone, page: cellPage, dir: "/", folded: map[string]bool{}, lists: map[page]*list{}}
	for p := range titles {
		m.lists[p] = &list{}
	}
	m.locks.rows, m.sessions.rows, m.files.rows = map[string]*lockRow{}, map[string]*sessionRow{}, map[string]*fileRow{}
	return m
}

// Over reports whether the user quit.
func (m *Model) Over() bool { return m.over }

// inOffice reports whether a cell has a master that holds its lease.
func inOffice(c lockapi.Cell) bool { return c.Master != nil && c.Lease.Held }

// current returns the list of the current page.
func (m *Model) current() *list { return m.lists[m.page] }
