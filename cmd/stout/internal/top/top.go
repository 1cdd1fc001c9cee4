// Package top is stout top: a cell at a terminal, live.
//
// It has two parts. The model (Model) is what is known and what is shown. It has
// no clock, no goroutine and no terminal: Update takes what happened, one message
// after the other, View is the screen, and Wanted what the model would like to
// know of the cell. The driver asks the cell for that on its own goroutines, and
// Run puts both on a terminal.
//
// Nothing here changes anything in the cell.
package top

import (
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// page is one of the views, by the key that shows it.
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

// Bounds of what is kept and asked for.
const (
	mostListed = 20_000 // locks, sessions or entries of a directory
	mostEvents = 2_000
	mostAgain  = 8                // rows in sight that are read again in one second
	traceFor   = 10 * time.Second // for which a lock that was freed stays to be seen
	noteFor    = time.Minute
	oldAfter   = 5 * time.Second // from when on the age of a reading is told
)

// Model is what is known of a cell and how it is looked at. Its methods are for
// one goroutine.
type Model struct {
	paint         paint
	zone          *time.Location
	width, height int
	clock         time.Time // as it is
	now           time.Time // as it is shown: it stands while paused

	page   page
	detail subject // what is looked at closely; none where its kind is noKind
	help   bool
	typing bool // the search
	over   bool
	lists  map[page]*list
	scroll int // first line of a detail, of help

	paused  bool
	held    []any // messages that came meanwhile
	dropped bool  // more events came than are kept

	look      Look
	lookedAt  time.Time // of the last look that succeeded
	lost      *Trouble  // why the last one did not
	lostSince time.Time
	master    string
	members   lockapi.Members
	membersAt time.Time
	noMembers *Trouble
	circles   []lockapi.Deadlock
	notes     []note

	events   []seen // newest first
	unheard  *Trouble
	locks    table[*lockRow]
	folded   map[string]bool
	sessions table[*sessionRow]
	files    table[*fileRow]
	dir      string
	reading  reading
	nudge    int // counts what happened to what is looked at closely
	missed   int // how often events were missed
}

// note is a line above the page, for a while.
type note struct {
	at   time.Time
	text string
	turn bool // who is master, which is not said while nobody is
}

// seen is an event and when it was heard of.
type seen struct {
	at time.Time
	lockapi.CellEvent
}

// reading is what was read of the subject that is looked at closely.
type reading struct {
	of subject
	at time.Time
	Detailed
}

// New is a model that knows nothing yet. Colour uses the terminal's own sixteen,
// which are readable on dark and on light.
func New(colour bool, zone *time.Location) *Model {
	m := &Model{paint: newPaint(colour), zone: zone, page: cellPage, dir: "/", folded: map[string]bool{}, lists: map[page]*list{}}
	for p := range titles {
		m.lists[p] = &list{}
	}
	m.locks.rows, m.sessions.rows, m.files.rows = map[string]*lockRow{}, map[string]*sessionRow{}, map[string]*fileRow{}
	return m
}

// Over says that who looks has had enough.
func (m *Model) Over() bool { return m.over }

// inOffice says whether a cell has a master that holds its lease.
func inOffice(c lockapi.Cell) bool { return c.Master != nil && c.Lease.Held }

// current is the list of the page that is shown.
func (m *Model) current() *list { return m.lists[m.page] }
