package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// contacts remembers when other replicas last answered, and with what.
type contacts struct {
	started time.Time // stands in for a replica that never answered
	mu      sync.Mutex
	last    map[string]contact
}

type contact struct {
	at      time.Time // of the last answer
	applied uint64
	missed  time.Time // of the first question after it without one; zero for none
}

// unreachedAfter is how long a replica leaves questions unanswered until the way
// to it counts as dead.
const unreachedAfter = 2 * contactEvery

func (c *contacts) note(id string, applied uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]contact{}
	}
	c.last[id] = contact{at: time.Now(), applied: applied}
}

// miss notes that a replica has not answered.
func (c *contacts) miss(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]contact{}
	}
	if got := c.last[id]; got.missed.IsZero() {
		got.missed = time.Now()
		c.last[id] = got
	}
}

// isUnreached reports whether the way to a replica is dead.
func (c *contacts) isUnreached(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	missed := c.last[id].missed
	return !missed.IsZero() && time.Since(missed) >= unreachedAfter
}

// unreached lists those that the way is dead to.
func (c *contacts) unreached() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, got := range c.last {
		if !got.missed.IsZero() && time.Since(got.missed) >= unreachedAfter {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (c *contacts) of(id string) contact {
	if got, ok := c.heard(id); ok {
		return got
	}
	return contact{at: c.started}
}

// heard is the last answer of a replica, if it has ever answered.
func (c *contacts) heard(id string) (got contact, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got = c.last[id]
	return got, !got.at.IsZero()
}

// contactEvery is how often a replica looks at the others without being asked,
// so that it can tell for how long one has been silent.
const contactEvery = time.Second

// keepContacts asks the others for their state until the server drains.
func (s *Server) keepContacts() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(contactEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stopping:
			return
		case <-tick.C:
			if at := s.attached.Load(); at != nil {
				view := at.View()
				s.forgetOthers(view.Cell.Replicas)
				s.probeAll(ctx, view.Own.ID, at.peers, view.Cell.Replicas)
			}
		}
	}
}

// forgetOthers forgets what was heard of replicas that are members no more: names come
// and go for as long as the process lives.
func (s *Server) forgetOthers(members []lockapi.Replica) {
	stay := make(map[string]bool, len(members))
	for _, r := range members {
		stay[r.ID] = true
	}
	forget(&s.contacts.mu, &s.contacts.last, stay)
	forget(&s.asked.mu, &s.asked.last, stay)
	forget(&s.clocks.mu, &s.clocks.rates, stay)
}

// forget deletes from a map, by replica, that mu guards whoever does not stay.
func forget[T any](mu *sync.Mutex, from *map[string]T, stay map[string]bool) {
	mu.Lock()
	defer mu.Unlock()
	maps.DeleteFunc(*from, func(id string, _ T) bool { return !stay[id] })
}

// readCell answers from the master's view where there is a master that answers
// quickly, and from this replica's own otherwise.
func readCell(x *exchange) error {
	follow, err := x.mayForward()
	if err != nil {
		return err
	}
	view := x.master.View()
	cell := view.Cell
	if at := x.master.Known(); follow && at.ID != "" && !at.Self {
		if got, ok := x.masterCell(at); ok {
			x.pass(got)
			return nil
		}
		depose(&cell)
	}
	x.probeAll(x.ctx(), view.Own.ID, x.peers, cell.Replicas)
	for i := range cell.Replicas {
		if cell.Replicas[i].ID == view.Own.ID {
			cell.Replicas[i].Unreached = x.contacts.unreached()
		}
	}
	return x.reply(http.StatusOK, cell)
}

// depose takes the master out of a view: the one that it names does not answer.
func depose(cell *lockapi.Cell) {
	cell.Master = nil
	for i := range cell.Replicas {
		if cell.Replicas[i].Role == lockapi.RoleMaster {
			cell.Replicas[i].Role = lockapi.RoleReplica
		}
	}
}

// masterCell asks the master for its view of the cell.
func (x *exchange) masterCell(at Location) (answer, bool) {
	ctx, cancel := context.WithTimeout(x.ctx(), x.opts.CellTimeout)
	defer cancel()
	got, _, err := x.send(ctx, at.ID)
	return got, err == nil && got.status == http.StatusOK
}

// probeAll asks every other replica for its own entry, all at once, and writes
// what they report into replicas.
func (s *Server) probeAll(ctx context.Context, self string, peers http.RoundTripper, replicas []lockapi.Replica) {
	var wg sync.WaitGroup
	for i := range replicas {
		if replicas[i].ID != self {
			wg.Go(func() { s.probe(ctx, peers, &replicas[i]) })
		}
	}
	wg.Wait()
}

// probe replaces what this replica knows of another by what the other reports.
// One that does not answer is unhealthy, its applied index the last one known.
func (s *Server) probe(ctx context.Context, peers http.RoundTripper, r *lockapi.Replica) {
	got, age, err := s.asked.of(ctx, peers, r.ID, s.opts.ProbeTimeout)
	if err != nil || got.ID != r.ID {
		if age == 0 && ctx.Err() == nil {
			s.contacts.miss(r.ID)
		}
		known := s.contacts.of(r.ID)
		r.Healthy = false
		r.LastContactMS = time.Since(known.at).Milliseconds()
		r.AppliedIndex = known.applied
		r.Promise = nil
		return
	}
	if age == 0 {
		s.contacts.note(r.ID, got.AppliedIndex)
	}
	got = aged(got, age)
	r.Role = got.Role
	r.Healthy = true
	r.LastContactMS = got.LastContactMS
	r.AppliedIndex = got.AppliedIndex
	r.Promise = got.Promise
	r.Unreached = got.Unreached
}

// maxReplicaBytes bounds the answer of a replica about itself.
const maxReplicaBytes = 64 << 10

// askReplica asks another replica for its own entry.
func askReplica(ctx context.Context, peers http.RoundTripper, id string) (lockapi.Replica, error) {
	var got lockapi.Replica
	_, err := ask(ctx, peers, id, lockapi.RouteReplica, &got)
	return got, err
}

// ask reads a short answer of another replica, and returns its headers.
func ask(ctx context.Context, peers http.RoundTripper, id, route string, into any) (http.Header, error) {
	url, err := peerURL(id, route, "")
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := peers.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("replica %s answered %s", id, resp.Status)
	}
	// Fields that a newer replica adds are no fault of this one.
	return resp.Header, json.NewDecoder(http.MaxBytesReader(nil, resp.Body, maxReplicaBytes)).Decode(into)
}

// caughtUpWithin is how many entries a replica may lag behind its master and
// still count as caught up.
const caughtUpWithin = 64

// caughtUp is nil when this replica has applied what the master has. The master
// is asked: nobody else knows how far a replica is behind that was just
// started.
func (x *exchange) caughtUp(at Location) error {
	if at.ID == "" {
		return lockapi.Errorf(lockapi.CodeNoMaster, "this replica knows no master")
	}
	ctx, cancel := context.WithTimeout(x.ctx(), x.opts.ProbeTimeout)
	defer cancel()
	master, err := askReplica(ctx, x.peers, at.ID)
	switch own := x.master.View().Own.AppliedIndex; {
	case err != nil:
		return lockapi.Errorf(lockapi.CodeNoMaster, "master %s cannot be asked how far it is: %v", at.ID, err)
	case master.ID != at.ID || master.Role != lockapi.RoleMaster:
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s is not the master any more", at.ID)
	case own+caughtUpWithin < master.AppliedIndex:
		return lockapi.Errorf(lockapi.CodeNoMaster, "this replica has applied entry %d, and master %s is at %d", own, at.ID, master.AppliedIndex)
	}
	return nil
}
