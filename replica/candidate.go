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

// Candidate is a replica that does not run yet: it has its data directory and
// its port, and waits until the directory is a member's of the cell. Its
// methods are safe for concurrent use.
type Candidate struct {
	opts Options
	host *host
	// answers is how long Start waits for a leader.
	answers time.Duration

	mu    sync.Mutex
	stage Standby
	taken bool // Start or Close has been called
}

// Standby says what a candidate waits for.
type Standby struct {
	ID, Directory string
	CellID        string // of the cell that it is a stranger to, or belongs to; empty while none is known
	Why           string // for people; empty at first
	Command       string // that an operator types to admit it; empty while a founding waits
}

// Prepare makes sure of the data directory and listens for the other replicas.
// It fails, having changed nothing, when the directory belongs to another cell
// or id, is of another format or was quarantined, or the address is in use.
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

// Standby is what the candidate waits for now.
func (c *Candidate) Standby() Standby {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stage
}

// Wait returns when the directory is a member's: at once where it was before,
// else when the cell is founded or has admitted it. The error is that of ctx,
// or of the disk.
func (c *Candidate) Wait(ctx context.Context) error {
	self, _ := c.opts.member(c.opts.ID)
	seeker := admission.Seeker{
		Self: admission.Self{
			Identity: c.host.dir.Identity(), RaftAddr: self.RaftAddr, Names: c.opts.names(), Access: c.opts.FoundAccess,
			NewDirectory: admission.NewDirectory, Joins: c.opts.Join != nil,
		},
		Others: c.host.others,
		Ask:    c.host.Ask, Save: c.host.dir.Save, Note: c.note,
	}
	_, err := seeker.Run(ctx)
	return err
}

// note shows what is waited for, and logs it when it changes.
func (c *Candidate) note(d admission.Decision) {
	who := c.host.dir.Identity()
	d.Why += c.elsewhere(d)
	now := Standby{ID: who.ID, Directory: who.Directory, CellID: who.CellID, Why: d.Why}
	if d.Step == admission.Stranger {
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

// elsewhere says that the member whose name a replica that joins has is reached
// somewhere else, as far as that was told: nobody would come here for its directory.
func (c *Candidate) elsewhere(d admission.Decision) string {
	told := c.host.told.Load()
	self, _ := c.opts.member(c.opts.ID)
	if d.Step != admission.Stranger || !d.Member || told == nil {
		return ""
	}
	for _, m := range *told {
		if m.ID == self.ID && m.RaftAddr != self.RaftAddr {
			return fmt.Sprintf("; that member is at %s, and this replica at %s: if it is another one, give it an id of its own; if the member is to be here, first stout member set %s --raft-addr %s --url %s",
				m.RaftAddr, self.RaftAddr, self.ID, self.RaftAddr, self.APIURL)
		}
	}
	return ""
}

// use has the candidate's parts go over to one caller.
func (c *Candidate) use() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return errors.New("the candidate has been started or closed")
	}
	c.taken = true
	return nil
}

// leaderAnswers is how long a start waits, at most, for a leader who knows what
// the directory had stored. It waits so long where hosts are down and nobody
// leads; one that is heard later is asked by mindReplacement.
const leaderAnswers = 250 * time.Millisecond

// Start starts the replica, after Wait. The candidate is used up, also where it
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

// open opens the stores in the data directory, and Raft's share of the host.
func (c *Candidate) open() (datadir.Stores, Peers, error) {
	s, err := c.host.dir.Open(c.opts.WAL, c.opts.Logger)
	if err != nil {
		return s, Peers{}, err
	}
	return s, Peers{Transport: c.host.network().Wire(), Ask: c.host.Ask, Others: c.host.others, host: c.host}, nil
}

// Close gives the candidate up.
func (c *Candidate) Close() error {
	if err := c.use(); err != nil {
		return err
	}
	return c.host.close()
}

// Open is Prepare, Wait and Start: it returns when the replica runs.
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
