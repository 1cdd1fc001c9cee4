// Package top is stout top, a live view of a cell on a terminal.
//
// The Model holds what is known and what is shown. Its jobs read the cell by
// commands of bubbletea, one reading at a time; each returns a change of the
// model. Run connects the model to a terminal.
//
// Nothing here changes the cell.
package top

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Source reads the cell in the words of the other stout commands.
type Source interface {
	// Look reads the cell as a whole, with its problems. It ends with ctx or
	// soon after. Members reads its members.
	Look(ctx context.Context, width int) (Look, error)
	Members(ctx context.Context, width int, stale bool) (Members, error)
	// Read describes a subject in lines of a width that are safe to print. stale
	// allows any replica to answer.
	Read(ctx context.Context, of Subject, width int, stale bool) (string, error)
	// Describe explains an error to the user.
	Describe(err error) *Trouble
}

// Look is the cell as a whole.
type Look struct {
	Cell     lockapi.Cell
	Replicas string // as stout status prints them
	// Findings describes problems of replicas, each beginning with the
	// replica's id, followed by the command that repairs it, if there is one.
	Findings []string
	// Unreached lists replicas that answer but do not reach the master.
	Unreached []string
}

// Members has the members of a cell and its cycles of waits.
type Members struct {
	Text      string // as stout member list prints them
	Tolerates string // how many more failures
	Cycles    []lockapi.Deadlock
}

// Trouble is why something could not be read.
type Trouble struct {
	Text string   // one line
	More []string // details and advice
	// Denied reports a refusal of this caller.
	Denied bool
}

// Subject is a lock, session or file that can be opened.
type Subject struct {
	Kind string // Lock, Session or File; empty for none
	Name string // the path, or the id
}

// The kinds of subjects.
const (
	Lock    = "Lock"
	Session = "Session"
	File    = "File"
)

// Limits of stored and requested data.
const (
	mostListed = 20_000 // locks, sessions or entries of a directory
	mostEvents = 2_000
	mostAgain  = 8                // visible rows to read again each second
	traceFor   = 10 * time.Second // how long a freed lock stays visible
	noteFor    = time.Minute
	oldAfter   = 5 * time.Second // the age from which a reading is marked
)

// Model is the state of a cell and of the view. It implements tea.Model.
type Model struct {
	source        Source
	client        *client.Client
	stream        tea.Cmd // sends events
	paint         format.Styles
	zone          *time.Location
	width, height int
	clock         time.Time // the actual time
	now           time.Time // the displayed time, which stops while paused

	pages  []pane
	page   int
	help   bool
	typing bool // the search
	over   bool
	scroll int // first line of a text
	drawn  *tea.View

	paused  bool
	held    []change // changes received while paused
	dropped bool     // more changes came than fit

	jobs      []*job
	look      Look
	lookedAt  time.Time // of the last successful look
	lost      *Trouble  // why the last look failed
	lostSince time.Time
	master    string
	members   Members
	membersAt time.Time
	noMembers *Trouble
	notes     []note

	locks    *list[lockapi.Lock]
	sessions *list[lockapi.SessionState]
	files    *list[client.DirEntry]
	events   *list[lockapi.CellEvent]
	folded   map[string]bool // directories of locks
	dir      string          // of files
	counted  int             // events so far
	missed   int             // how often events were missed
	unheard  *Trouble        // why no events come

	detail Subject // the open subject
	unread bool    // it must be read
	read   reading
}

// note is a line above the page, for a while.
type note struct {
	at   time.Time
	text string
	turn bool // about mastership; hidden without a master
}

type reading struct {
	of    Subject
	at    time.Time
	text  string // lines, made safe to print; styled
	stale bool
	err   *Trouble
}

// New returns an empty model. Colour uses the terminal's own sixteen colours,
// which are readable on dark and on light.
func New(source Source, c *client.Client, colour bool, zone *time.Location) *Model {
	m := &Model{
		source: source, client: c, paint: format.NewStyles(io.Discard, format.Profile(colour)), zone: zone,
		dir: "/", folded: map[string]bool{}, locks: newLocks(), sessions: newSessions(), files: newFiles(), events: newEvents(),
	}
	m.pages = []pane{
		text{"Cell", (*Model).cellLines}, m.locks, m.sessions, m.files, m.events, text{"Members", (*Model).membersLines},
	}
	m.jobs = []*job{
		{read: (*Model).readCell, pace: (*Model).lookPace, limit: patience},
		{read: (*Model).readMembers, pace: func(m *Model) time.Duration { return memberBeats * m.pace() }, limit: patience},
		{read: func(m *Model) reader { return m.current().next(m) }, pace: func(m *Model) time.Duration { return m.current().pace(m) }, limit: listTime, shown: true},
		{read: (*Model).readDetail, pace: (*Model).pace, limit: patience, shown: true, live: true},
	}
	return m
}

func (m *Model) current() pane { return m.pages[m.page] }

// stale reports whether there is no master to answer. Without the right to look,
// readings show it.
func (m *Model) stale() bool {
	return m.lost == nil && !m.lookedAt.IsZero() && !ask.InOffice(m.look.Cell)
}

// happens handles a change of the model: at once, or at the end of a pause.
func (m *Model) happens(c change) {
	if !m.paused {
		c(m)
		return
	}
	m.held = append(m.held, c)
	if len(m.held) > mostEvents {
		m.held, m.dropped = m.held[1:], true
	}
}

func (m *Model) resume() {
	held, dropped := m.held, m.dropped
	m.paused, m.held, m.dropped, m.now = false, nil, false, m.clock
	for _, c := range held {
		c(m)
	}
	if dropped {
		m.miss(m.now)
	}
	m.fade()
}

// miss records lost events: everything must be read again.
func (m *Model) miss(at time.Time) {
	m.missed, m.unread = m.missed+1, true
	m.note(at, "Some changes were missed, because the replicas no longer keep them. Reading everything again.")
}

func (m *Model) looked(at time.Time, look Look, err *Trouble) {
	if err != nil {
		if m.lost == nil {
			m.lostSince = at
		}
		m.lost = err
		return
	}
	if m.lost != nil && !m.lost.Denied && !m.lookedAt.IsZero() {
		m.note(at, fmt.Sprintf("The cell answers again, after %s.", format.Human(at.Sub(m.lostSince))))
	}
	m.lost, m.look, m.lookedAt = nil, look, at
	if c := look.Cell; ask.InOffice(c) {
		m.turn(at, c.Master.ID, c.Epoch)
	}
}

func (m *Model) turn(at time.Time, id string, epoch uint64) {
	if m.master == id {
		return
	}
	if m.master != "" {
		m.note(at, fmt.Sprintf("%s is master now, epoch %d, after %s. Sessions and locks stay.", format.Clean(id), epoch, format.Clean(m.master)))
		m.notes[len(m.notes)-1].turn = true
	}
	m.master = id
}

// note shows a line above the page for some time. There are at most two.
func (m *Model) note(at time.Time, text string) {
	m.notes = append(m.notes, note{at: at, text: text})
	m.notes = m.notes[max(0, len(m.notes)-2):]
}

// fade drops outdated notes and freed locks.
func (m *Model) fade() {
	m.notes = slices.DeleteFunc(m.notes, func(n note) bool { return m.now.Sub(n.at) > noteFor })
	m.locks.drop(func(r *record[lockapi.Lock]) bool { return !r.freed.IsZero() && m.now.Sub(r.freed) > traceFor })
}

func (m *Model) happened(at time.Time, e lockapi.CellEvent) {
	m.addEvent(at, e)
	switch e.Type.Subject() {
	case lockapi.SubjectMaster:
		if e.Master != nil {
			m.turn(at, e.Master.Master, e.Master.Epoch)
		}
	case lockapi.SubjectLock:
		m.lockEvent(at, e)
	case lockapi.SubjectFile:
		m.fileEvent(at, e)
	}
	if e.Path != "" && e.Path == m.detail.Name || m.detail.Kind == Session && e.Hold != nil && e.Hold.Session == m.detail.Name {
		m.unread = true
	}
}

// tickEvery is the time between updates of the clock, short enough to show the
// lease running down.
const tickEvery = 100 * time.Millisecond

type tick time.Time

func ticking() tea.Cmd { return tea.Tick(tickEvery, func(t time.Time) tea.Msg { return tick(t) }) }

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd {
	m.clock = time.Now()
	m.now = m.clock
	return tea.Batch(ticking(), m.stream)
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case tick:
		m.clock, next = time.Time(msg), ticking()
		if !m.paused {
			m.now = m.clock
			m.fade()
		}
	case tea.WindowSizeMsg:
		m.width, m.height, m.unread = msg.Width, msg.Height, true
	case tea.PasteMsg:
		m.press("paste", msg.Content)
	case tea.KeyPressMsg:
		key := tea.Key(msg)
		switch name := key.Keystroke(); {
		case name == "ctrl+c":
			return m, tea.Interrupt
		case name == "ctrl+z" && child.MayStop():
			return m, tea.Suspend
		case key.Text != "" && key.Text != " ":
			m.press(key.Text, key.Text)
		default:
			m.press(name, key.Text)
		}
	case done:
		m.ended(msg)
	case occurred: // shown at the next tick: a screen for each event is too much
		m.happens(msg.change)
		return m, nil
	}
	m.drawn = nil
	if m.over {
		return m, tea.Quit
	}
	return m, tea.Batch(next, m.start())
}
