package elect

import "github.com/stoutlock/stout/cmd/stoutlab/internal/sim"

// service is the service, simplified to one node that does not fail: entries
// and watches. The service's own failure detector, the session, removes an
// entry when its process is gone.
type service struct {
	Gone    set
	Epoch   int
	Watches []int // by process: the watched process
	Herd    bool
}

func (s *service) Init(*sim.Port) {}

func (s *service) Receive(net *sim.Port, m sim.Message) {
	above := s.above(net.N(), m.From)
	s.Watches[m.From] = above
	net.Send(m.From, sim.Message{Kind: watching, ID: above, Round: s.Epoch})
}

// above returns the entry that a process must watch: the next-higher one, or
// the highest for the herd. If there is no such entry, it returns the process's
// own.
func (s *service) above(n, id int) int {
	others, step := id+1, +1
	if s.Herd {
		others, step = n-1, -1
	}
	for other := others; id < other && other < n; other += step {
		if !s.Gone.has(other) {
			return other
		}
	}
	return id
}

func (s *service) Suspect(net *sim.Port, peer int) {
	s.Gone.add(peer)
	s.Epoch++
	s.Watches[peer] = sim.NoProcess
	for id, watched := range s.Watches {
		if watched == peer {
			s.Watches[id] = sim.NoProcess
			net.Send(id, sim.Message{Kind: gone, ID: peer})
		}
	}
}

func (s *service) Timeout(*sim.Port, int) {}
