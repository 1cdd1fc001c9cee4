package simcell

import (
	"math/rand/v2"
	"slices"
	"time"
)

// special lists the special profiles. Each repeats one schedule that mixtures
// of all faults hardly ever contain, because it combines several rare parts.
var special = []struct {
	name    string
	nothing int      // weight of a step without an action; 0 = all actions stay, and users are not calm
	acts    []string // the actions that stay
	more    func(*profile)
}{
	{"late answers", 3, []string{"late answers"}, func(p *profile) { p.hold, p.ttl = 8*time.Second, 1500*time.Millisecond }},
	{"late copies", 30, []string{"client cut off", "slow network", "fair network"}, func(p *profile) { p.again = 3 }},
	{"late acquires", 3, []string{"late acquire"}, nil},
	{"late requests", 30, []string{"slow network", "fair network"}, func(p *profile) { p.stuck, p.ttl = 4, 6*time.Second }},
	{"outlived office", 3, []string{"outlived office"}, func(p *profile) { p.ttl, p.probes = 6*time.Second, 2 }},
	{"second thoughts", 2, []string{"second thoughts"}, nil},
	{"unfit masters", 2, []string{"unfit master"}, nil},
	{"unanswered entries", 2, []string{"unanswered entries"}, nil},
	{"priorities", 10, []string{"crash", "coup", "transfer", "client crash", "client cut off", "kill of a session", "heal"}, func(p *profile) {
		p.work[0], p.work[1], p.work[5] = 5, 5, 1
		p.hold, p.delays, p.ranks, p.watches = 500*time.Millisecond, 10, true, true
	}},
	{"sets", 10, []string{"crash", "coup", "transfer", "client crash", "client cut off", "kill of a session", "heal"}, func(p *profile) {
		p.work[0], p.work[1], p.work[5] = 5, 5, 2
		p.hold, p.delays, p.sets, p.ranks = time.Second, 10, true, true
	}},
	{"quotas", 6, []string{"crash", "transfer", "recount", "heal"}, func(p *profile) { p.access, p.quotas = true, true }},
	{"keys", 10, []string{"crash", "coup", "transfer", "client crash", "client cut off", "kill of a session", "heal"}, func(p *profile) {
		p.work[0], p.work[8], p.work[9] = 2, 2, 1
		p.hold, p.delays, p.keys, p.watches = time.Second, 2, true, true
	}},
	{"access", 0, nil, func(p *profile) { p.stalls, p.access, p.watches = 40, true, true }},
	{"stalled keepalives", 3, []string{"stalled keepalive"}, nil},
	{"lock-delays", 10, []string{"client crash", "mute client", "kill of a session"}, func(p *profile) { p.hold, p.ttl, p.delays = 8*time.Second, 1500*time.Millisecond, 1 }},
	{"lost news", 3, []string{"lost news"}, nil},
	{"relayed events", 3, []string{"relayed event"}, nil},
	{"cut snapshots", 3, []string{"late snapshot", "ambush", "crash in a write", "heal"}, nil},
	{"new voters", 3, []string{"hungry voter", "lagging voter", "heal"}, nil},
	{"absentees", 3, []string{"coup", "cut", "heal"}, func(p *profile) { p.members, p.five = true, true }},
	{"late words", 3, []string{"late word"}, func(p *profile) { p.again = 3 }},
	{"late checks", 3, []string{"late check"}, func(p *profile) { p.access = true }},
	{"failovers of waiters", 3, []string{"waiter failover", "inheritance", "heal"}, func(p *profile) { p.sets = true }},
	{"stops", 3, []string{"stop in good order", "transfer", "heal"}, nil},
}

// Profiles returns the names of the special profiles.
func Profiles() (names []string) {
	for _, s := range special {
		names = append(names, s.name)
	}
	return names
}

// specialize draws what few runs have: late copies of messages, and the special
// profiles unless one is named.
func (p *profile) specialize(r *rand.Rand, name string) {
	p.again = pick(r, 0, 0, 0, 0, 200, 40, 10)
	drawn := r.IntN(64)
	for i, s := range special {
		if s.name != name && (name != "" || i != drawn) {
			continue
		}
		if s.nothing > 0 {
			p.calm()
			p.acts(s.nothing, s.acts)
		}
		if s.more != nil {
			s.more(p)
		}
	}
}

// calm makes users take locks through the SDK, one after the other, and
// replicas not stall.
func (p *profile) calm() {
	for i := range p.work {
		p.work[i] = 0
	}
	p.work[0] = 1
	p.stalls, p.probes, p.cutOff, p.again = 0, 0, 0, 0
	p.near, p.think = 2*time.Millisecond, 30*time.Millisecond
	p.watches, p.follows = false, false
}

// acts keeps some actions, and steps without one.
func (p *profile) acts(nothing int, names []string) {
	for i, a := range actions {
		if p.weights[i] = 0; slices.Contains(names, a.name) {
			p.weights[i] = max(1, a.weight)
		}
	}
	p.weights[0] = nothing
}
