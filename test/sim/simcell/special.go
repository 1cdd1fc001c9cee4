package simcell

import (
	"math/rand/v2"
	"slices"
	"time"
)

// special lists the special profiles. Each repeats one schedule that mixtures
// of all faults hardly ever contain, because it combines several rare parts.
var special = []struct {
	name string
	set  func(*profile)
}{
	{"late answers", func(p *profile) {
		p.calm()
		p.acts(3, "late answers")
		p.hold, p.ttl = 8*time.Second, 1500*time.Millisecond
	}},
	{"late copies", func(p *profile) {
		p.calm()
		p.acts(30, "client cut off", "slow network", "fair network")
		p.again = 3
	}},
	{"late acquires", func(p *profile) {
		p.calm()
		p.acts(3, "late acquire")
	}},
	{"late requests", func(p *profile) {
		p.calm()
		p.acts(30, "slow network", "fair network")
		p.stuck, p.ttl = 4, 6*time.Second
	}},
	{"outlived office", func(p *profile) {
		p.calm()
		p.acts(3, "outlived office")
		p.ttl, p.probes = 6*time.Second, 2
	}},
	{"second thoughts", func(p *profile) {
		p.calm()
		p.acts(2, "second thoughts")
	}},
	{"unfit masters", func(p *profile) {
		p.calm()
		p.acts(2, "unfit master")
	}},
	{"unanswered entries", func(p *profile) {
		p.calm()
		p.acts(2, "unanswered entries")
	}},
	{"priorities", func(p *profile) {
		p.calm()
		p.acts(10, "crash", "coup", "transfer", "client crash", "client cut off", "kill of a session", "heal")
		p.work[0], p.work[1], p.work[5] = 5, 5, 1
		p.hold, p.delays, p.ranks, p.watches = 500*time.Millisecond, 10, true, true
	}},
	{"sets", func(p *profile) {
		p.calm()
		p.acts(10, "crash", "coup", "transfer", "client crash", "client cut off", "kill of a session", "heal")
		p.work[0], p.work[1], p.work[5] = 5, 5, 2
		p.hold, p.delays, p.sets, p.ranks = time.Second, 10, true, true
	}},
	{"quotas", func(p *profile) {
		p.calm()
		p.acts(6, "crash", "transfer", "recount", "heal")
		p.access, p.quotas = true, true
	}},
	{"keys", func(p *profile) {
		p.calm()
		p.acts(10, "crash", "coup", "transfer", "client crash", "client cut off", "kill of a session", "heal")
		p.work[0], p.work[8], p.work[9] = 2, 2, 1
		p.hold, p.delays, p.keys, p.watches = time.Second, 2, true, true
	}},
	{"access", func(p *profile) {
		p.stalls, p.access, p.watches = 40, true, true
	}},
	{"stalled keepalives", func(p *profile) {
		p.calm()
		p.acts(3, "stalled keepalive")
	}},
	{"lock-delays", func(p *profile) {
		p.calm()
		p.acts(10, "client crash", "mute client", "kill of a session")
		p.hold, p.ttl, p.delays = 8*time.Second, 1500*time.Millisecond, 1
	}},
	{"lost news", func(p *profile) {
		p.calm()
		p.acts(3, "lost news")
	}},
	{"relayed events", func(p *profile) {
		p.calm()
		p.acts(3, "relayed event")
	}},
	{"cut snapshots", func(p *profile) {
		p.calm()
		p.acts(3, "late snapshot", "ambush", "crash in a write", "heal")
	}},
	{"new voters", func(p *profile) {
		p.calm()
		p.acts(3, "hungry voter", "lagging voter", "heal")
	}},
	{"absentees", func(p *profile) {
		p.calm()
		p.acts(3, "coup", "cut", "heal")
		p.members, p.five = true, true
	}},
	{"late words", func(p *profile) {
		p.calm()
		p.acts(3, "late word")
		p.again = 3
	}},
	{"late checks", func(p *profile) {
		p.calm()
		p.acts(3, "late check")
		p.access = true
	}},
	{"failovers of waiters", func(p *profile) {
		p.calm()
		p.acts(3, "waiter failover", "inheritance", "heal")
		p.sets = true
	}},
	{"stops", func(p *profile) {
		p.calm()
		p.acts(3, "stop in good order", "transfer", "heal")
	}},
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
		if s.name == name || name == "" && i == drawn {
			s.set(p)
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
func (p *profile) acts(nothing int, names ...string) {
	for i, a := range actions {
		if p.weights[i] = 0; slices.Contains(names, a.name) {
			p.weights[i] = max(1, a.weight)
		}
	}
	p.weights[0] = nothing
}
