package stouttest

import (
	"context"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/state"
)

// KillMaster ends the master's process, as a crash does. It returns when
// another replica is in office and the killed one runs again. In a cell of one
// replica the same replica is the next master. Sessions and locks survive;
// calls under way have an unknown outcome.
func (c *Cell) KillMaster() {
	old := c.inOffice().node.ID()
	c.Stop(old)
	c.Start(old)
}

// IsolateMaster cuts the master off from the other replicas. It returns when
// another one is in office and the old one is reconnected. Clients can reach
// all replicas throughout. The cell needs three or more replicas.
func (c *Cell) IsolateMaster() {
	if len(c.replicas) == 1 {
		c.fatalf("IsolateMaster: a cell of one replica has no others")
	}
	old := c.inOffice()
	c.net.part(peerPort(old.node.ID()), true)
	c.log.Cut(old.node, true)
	time.Sleep(electionTime)
	c.log.Depose(old.node)
	c.elect(old)
	c.net.part(peerPort(old.node.ID()), false)
	c.log.Cut(old.node, false)
}

// Depose ends the master's office. The replicas continue, and the cell has no
// master until Elect.
func (c *Cell) Depose() {
	old := c.inOffice()
	c.log.Depose(old.node)
	c.log.Abandon(old.node)
	for c.master() == old {
		time.Sleep(entryTime)
	}
}

// Elect makes a replica the master, and returns when it is in office. A current
// master hands over; otherwise the new one waits for the end of the last lease.
func (c *Cell) Elect(id string) {
	next := c.replica(id)
	if next.running() == nil {
		c.fatalf("Elect: replica %s is stopped", id)
	}
	before := next.running().Known().Epoch
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch old := c.master(); {
	case old == next:
		c.log.Depose(next.node)
		c.log.Campaign(next.node)
	case old != nil:
		if _, err := old.running().TransferMastership(ctx, anyone(), &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: id}}); err != nil {
			c.fatalf("Elect: handover from %s to %s: %v", old.node.ID(), id, err)
		}
	case !c.log.Campaign(next.node):
		c.fatalf("Elect: replica %s cannot be elected", id)
	}
	c.awaitOffice(ctx, next, before+1)
}

// ExpireSession ends a session as if its lease had run out, and returns when
// the cell has done so. The session's locks leave their lock-delays behind.
func (c *Cell) ExpireSession(id string) {
	at := c.inOffice().node
	if _, ok := at.State().Session(id); !ok {
		c.fatalf("ExpireSession: the cell has no session %q", id)
	}
	at.Put(state.Command{Time: time.Now().UnixNano(), Operation: &state.ExpireSession{Session: id}})
	for began := time.Now(); ; time.Sleep(entryTime) {
		if _, ok := at.State().Session(id); !ok {
			return
		}
		if time.Since(began) > patience {
			c.fatalf("ExpireSession: session %q did not end", id)
		}
	}
}

// ReleaseByForce releases the lock at path for all its holders, as an operator
// does. Their sessions survive.
func (c *Cell) ReleaseByForce(path string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m := c.inOffice().running()
	lock, err := m.GetLock(ctx, &master.Read{Caller: anyone()}, &lockapi.GetLock{Path: path})
	if err != nil {
		c.fatalf("ReleaseByForce: the holders of %q: %v", path, err)
	}
	for _, h := range lock.Holders {
		_, err := m.ReleaseLock(ctx, anyone(), &lockapi.ReleaseLock{Path: path, Session: h.Session, Handle: h.Handle, Token: h.Token, Forced: true})
		if err != nil {
			c.fatalf("ReleaseByForce: %q: %v", path, err)
		}
	}
}

// anyone is a caller that needs no right while access is on.
func anyone() *master.Caller { return &master.Caller{Ask: master.Ask{Right: master.Nothing}} }

// Cut disconnects a client: its connections break, and new ones are refused,
// until Mend.
func (c *Cell) Cut(of *client.Client) { c.wayOf(of).set(refused) }

// Lose silently drops all packets to and from a client, until Mend. Its calls
// wait until they give up.
func (c *Cell) Lose(of *client.Client) { c.wayOf(of).set(lost) }

// LoseAnswers delivers a client's requests and drops the answers, until Mend.
func (c *Cell) LoseAnswers(of *client.Client) { c.wayOf(of).set(deaf) }

// Mend ends the effect of Cut, Lose and LoseAnswers.
func (c *Cell) Mend(of *client.Client) { c.wayOf(of).set(whole) }

func (c *Cell) wayOf(of *client.Client) *way {
	c.mu.Lock()
	w := c.clients[of]
	c.mu.Unlock()
	if w == nil {
		c.fatalf("the client is not one of this cell's")
	}
	return w
}

// Delay delays each answer to a client, and each start of an event stream, by
// d; 0 ends that.
func (c *Cell) Delay(d time.Duration) { c.delay.Store(int64(d)) }
