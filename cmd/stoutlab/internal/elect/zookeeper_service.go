package elect

import "github.com/stoutlock/stout/cmd/stoutlab/internal/sim"

// service is the service, simplified to one node that does not fail: entries
// and watches. That an entry goes away with its process is the service's own
// failure detector, the session.
type service struct {
	Gone    set
	Epoch   int
	Watches []int // of each process, whom it watches
	Herd    bool
}

func (s *service) Init(*sim.Port) {}

func (s *service) Receive(net *sim.Port, m sim.Message) {
	above := s.above(net.N(), m.From)
	s.Watches[m.From] = above
	net.Send(m.From, sim.Message{Kind: watching, ID: above, Round: s.Epoch})
}

// above is the entry that a process has to watch: the next-higher one, or the
// highest for the herd. Its own means that there is none.
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

func (s *service) Suspect(net *sim.Port, who int) {
	s.Gone.add(who)
	s.Epoch++
	s.Watches[who] = sim.Nobody
	for id, watched := range s.Watches {
		if watched == who {
			s.Watches[id] = sim.Nobody
			net.Send(id, sim.Message{Kind: gone, ID: who})
		}
	}
}

func (s *service) Timeout(*sim.Port, int) {}
