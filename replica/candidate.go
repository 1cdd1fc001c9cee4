package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
)

// Candidate is a replica that does not run yet. It has its data directory and
// its port, and waits until the directory belongs to a member of the cell. Its
// methods are safe for concurrent use.
type Candidate struct {
	opts Options
	host *host
	// answers is how long Start waits for a leader.
	answers time.Duration

	mu    sync.Mutex
	stage Standby
	used  bool // Start or Close has been called
}

// Standby describes the event that a candidate waits for.
type Standby struct {
	ID, Directory string
	CellID        string // the cell that it is a stranger to, or belongs to; empty while unknown
	Why           string // for people to read; empty at first
	Command       string // the command with which an operator admits it; empty while a founding waits
}

// Prepare locks and checks the data directory, and listens for the other
// replicas. It fails, having changed nothing, when the directory belongs to
// another cell or id, has another format or was quarantined, or when the
// address is in use.
func Prepare(o Options) (*Candidate, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := datadir.Lock(o.DataDir, o.Cell, o.ID)
	if err != nil {
		return nil, err
	}
	c := &Candidate{opts: o, answers: leaderAnswers}
	if c.host, err = newHost(&c.opts, dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	c.note(admission.Decision{Identity: dir.Identity()})
	return c, nil
}

// Standby returns what the candidate waits for now.
func (c *Candidate) Standby() Standby {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stage
}

// Wait returns when the directory belongs to a member. It returns at once if
// that was so before, else when the cell is founded or has admitted the
// directory. The error comes from ctx or from the disk.
func (c *Candidate) Wait(ctx context.Context) error {
	self, _ := c.opts.member(c.opts.ID)
	seeker := admission.Finder{
		Self: admission.Self{
			Identity: c.host.dir.Identity(), RaftAddr: self.RaftAddr, Names: c.opts.names(), Addrs: c.opts.addrs(), Access: c.opts.FoundAccess,
			NewDirectory: admission.NewDirectory, Joins: c.opts.Join != nil,
		},
		Others: c.host.others,
		Ask:    c.host.Ask, Save: c.host.dir.Save, Note: c.note,
	}
	_, err := seeker.Run(ctx)
	return err
}

// note records the decision for Standby, and logs it when it changes.
func (c *Candidate) note(d admission.Decision) {
	who := c.host.dir.Identity()
	d.Why += c.elsewhere(d)
	now := Standby{ID: who.ID, Directory: who.Directory, CellID: who.CellID, Why: d.Why}
	if d.Step == admission.Outsider {
		now.CellID = d.CellID
		if now.Command = fmt.Sprintf("stout member replace %s --directory %s", who.ID, who.Directory); !d.Member {
			self, _ := c.opts.member(who.ID)
			now.Command = fmt.Sprintf("stout member add %s --directory %s --raft-addr %s --url %s", who.ID, who.Directory, self.RaftAddr, self.APIURL)
		}
	}
	c.mu.Lock()
	changed := now != c.stage
	c.stage = now
	c.mu.Unlock()
	if !changed || d.Why == "" {
		return
	}
	e := c.opts.Logger.Info()
	if now.Command != "" {
		e = c.opts.Logger.Warn().Str("command", now.Command)
	}
	e.Str("directory", now.Directory).Msg(d.Why)
}

// elsewhere reports, for a replica that joins, that the member with its name
// has another address, if that address is known. No replica would look for this
// directory at this replica's address.
func (c *Candidate) elsewhere(d admission.Decision) string {
	told := c.host.told.Load()
	self, _ := c.opts.member(c.opts.ID)
	if d.Step != admission.Outsider || !d.Member || told == nil {
		return ""
	}
	for _, m := range *told {
		if m.ID == self.ID && m.RaftAddr != self.RaftAddr {
			return fmt.Sprintf("; that member is at %s, but this replica is at %s: if they are different replicas, give this one an id of its own; if the member is to move here, first run stout member set %s --raft-addr %s --url %s",
				m.RaftAddr, self.RaftAddr, self.ID, self.RaftAddr, self.APIURL)
		}
	}
	return ""
}

// use hands the candidate's parts over to one caller; any later call fails.
func (c *Candidate) use() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used {
		return errors.New("the candidate was already started or closed")
	}
	c.used = true
	return nil
}

// leaderAnswers bounds how long a start waits for a leader that knows what the
// directory had stored. The whole time passes where hosts are down and no
// replica leads. watchReplacement asks a leader that is found later.
const leaderAnswers = 250 * time.Millisecond

// Start starts the replica, after Wait. It uses up the candidate, even when it
// fails.
func (c *Candidate) Start() (*Replica, error) {
	if err := c.use(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.answers)
	defer cancel()
	known := make(chan admission.Stored, 1)
	go func() {
		names, _ := c.host.others(ctx)
		known <- admission.AskLeader(ctx, c.opts.ID, c.host.dir.Identity().CellID, names, c.host.askBelieved)
	}()
	s, p, err := c.open()
	if err != nil {
		return nil, errors.Join(err, c.host.close())
	}
	p.Known = <-known
	return Start(c.opts, s, p)
}

// open opens the stores in the data directory, and returns them with the host's
// transport.
func (c *Candidate) open() (datadir.Stores, Peers, error) {
	s, err := c.host.dir.Open(c.opts.WAL, c.opts.Logger)
	if err != nil {
		return s, Peers{}, err
	}
	return s, Peers{Transport: c.host.network().Wire(), Ask: c.host.Ask, Others: c.host.others, host: c.host}, nil
}

// Close releases the port and the data directory.
func (c *Candidate) Close() error {
	if err := c.use(); err != nil {
		return err
	}
	return c.host.close()
}

// Open calls Prepare, Wait and Start. It returns when the replica runs.
func Open(o Options) (*Replica, error) {
	c, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	if err := c.Wait(context.Background()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c.Start()
}
