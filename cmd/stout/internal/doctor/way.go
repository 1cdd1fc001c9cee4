package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// Bounds of what is well on the way.
const (
	slowLookup  = 500 * time.Millisecond
	slowDial    = 200 * time.Millisecond
	slowAnswer  = 250 * time.Millisecond
	wallWarn    = 5 * time.Second
	wallBad     = time.Minute
	tokenSoon   = time.Hour
	certSoon    = 14 * 24 * time.Hour // as stoutd says it
	addressWord = "an address, not a name"
)

func names(s *Seen, g *gathered) {
	if s.NamesErr != nil {
		g.add(Bad, "Correct the name in --server or STOUT_SERVER, or have the DNS know it: dns:NAME:PORT is of addresses, dns:NAME of SRV records.", "%v", s.NamesErr)
	}
	for _, at := range s.Servers {
		switch {
		case at.Proxy != "":
		case at.Literal:
			g.ok("%s is %s", at.Host, addressWord)
		case at.LookupErr != nil:
			g.add(Bad, "Correct the name in --server or STOUT_SERVER, or have your DNS (or /etc/hosts) know it.", "%s: %v", at.Host, at.LookupErr)
		case at.LookedUp >= slowLookup:
			g.add(Warn, "Each new connection may wait for that: look at the resolver (/etc/resolv.conf), or name addresses.", "%s took %s to resolve", at.Host, took(at.LookedUp))
		default:
			g.ok("%s is %s (%s)", at.Host, list(at.Addresses), took(at.LookedUp))
		}
	}
}

func connections(s *Seen, g *gathered) {
	none := !slices.ContainsFunc(s.Servers, (*Server).Answers)
	for _, at := range s.Servers {
		bad := slices.DeleteFunc(slices.Clone(at.Dials), func(d Dial) bool { return d.Err == nil })
		switch {
		case len(at.Dials) == 0: // by a proxy, or without an address
		case !at.Named && !at.connects(): // see urls
		case !at.connects():
			v, do := Warn, "Is stoutd running there, and does a firewall let this host through?"
			if none {
				v = Bad
			} else {
				do += " The others serve meanwhile, if they are well."
			}
			g.add(v, do, "%s: %v", at.URL, at.Dials[0].Err)
		case len(bad) > 0:
			for _, d := range bad {
				g.add(Warn, "Take the address out of DNS, or have it answer: new connections may lose time there.", "%s: %s does not connect, others of its addresses do: %v", at.URL, d.Address, d.Err)
			}
		case at.slowest() >= slowDial:
			g.add(Warn, "The way there is long or lossy; a session's ttl should be many times that.", "%s took %s", at.URL, took(at.slowest()))
		default:
			g.ok("%s in %s", at.URL, took(at.slowest()))
		}
	}
}

func (s *Server) slowest() (longest time.Duration) {
	for _, d := range s.Dials {
		longest = max(longest, d.Took)
	}
	return longest
}

func proxies(s *Seen, g *gathered) {
	for _, at := range s.Servers {
		if at.Proxy != "" {
			g.add(Warn, "A proxy that limits how long a call may take ends waits and keepalives early. NO_PROXY="+at.Host+" goes past it.", "%s is called through %s, which the environment names", at.URL, at.Proxy)
		}
	}
	if len(g.findings) == 0 {
		g.ok("none between here and the cell")
	}
}

// answers is about servers that connect and do not answer.
func answers(s *Seen, g *gathered) {
	for _, at := range s.Servers {
		switch {
		case at.Err == nil && at.Replica != nil:
			g.ok("%s is %s", at.URL, cmp.Or(at.Replica.ID, "nameless"))
		case at.Proxy == "" && !at.connects(), at.TLS != nil && (at.TLS.Err != nil || at.TLS.Distrust != nil):
		case ask.IsDenial(at.Err):
			g.add(Warn, "Ask with a credential that may observe the cell: --token-file FILE, or --cert and --key.", "%s tells nothing to who asks: %s", at.URL, codeOf(at.Err))
		default:
			g.add(Bad, "Something takes connections there and gives no answer: a process that hangs, a machine that is overloaded, or no stoutd. Look at its log.", "%s: %v", at.URL, at.Err)
		}
	}
}

func latency(s *Seen, g *gathered) {
	for _, at := range s.answered() {
		if at.Took >= slowAnswer {
			g.add(Warn, "A call takes at least that, a keepalive too: sessions from here want a ttl of many times that.", "%s: at best %s for an answer", at.Replica.ID, took(at.Took))
		} else {
			g.ok("%s %s", at.Replica.ID, took(at.Took))
		}
	}
}

func sameCell(s *Seen, g *gathered) {
	ids := bySame{}
	for _, at := range s.Servers {
		if at.Err == nil {
			ids.add(at.CellID, at.URL)
		}
	}
	switch len(ids) {
	case 0:
		g.add(Unknown, "", "no server has said which cell it is of")
	case 1:
		g.ok("all answer as the cell with id %s", ids[0].what)
	default:
		var words []string
		for _, c := range ids {
			words = append(words, c.what+" by "+list(c.who))
		}
		g.add(Bad, "Name replicas of one cell only: a lock of the one is no lock of the other.", "different cells answer: %s", strings.Join(words, "; "))
	}
}

func wallClock(s *Seen, g *gathered) {
	const do = "Have NTP set the clock of this host or of that one. Certificates and JWTs are judged by it; leases and sessions are not."
	for _, at := range s.Servers {
		if !at.Dated {
			continue
		}
		off, name := at.Date.least(), at.URL
		if at.Replica != nil {
			name = at.Replica.ID
		}
		switch {
		case off >= wallWarn:
			g.add(worse(off >= wallBad), do, "%s is %s of this host by at least %s", name, at.Date.side(), took(off))
		default:
			g.ok("%s within %s", name, took(max(at.Date.High, -at.Date.Low)))
		}
	}
}

// least is how far a window is from zero.
func (w Window) least() time.Duration { return max(0, w.Low, -w.High) }

func (w Window) side() string {
	if w.Low > 0 {
		return "ahead"
	}
	return "behind"
}

func tokenEnd(s *Seen, g *gathered) {
	switch left := s.TokenEnds.Sub(s.At); {
	case s.TokenEnds.IsZero():
	case left <= 0:
		g.add(Bad, "Get a new one: calls with it are refused.", "the JWT ended %s ago", took(-left))
	case left < tokenSoon:
		g.add(Warn, "See that whatever renews it does: a token file is read anew for each call.", "the JWT ends in %s", took(left))
	default:
		g.ok("the JWT is good for %s", took(left))
	}
}

func credential(s *Seen, g *gathered) {
	const sayWho = "--token-file FILE, or --cert and --key."
	switch {
	case isUnauthenticated(s.WhoErr):
		g.add(Bad, "Send one that the cell takes: "+sayWho, "the credential that was sent is refused: %v", s.WhoErr)
	case s.WhoErr != nil || s.Who == nil:
		g.add(Unknown, "", "the cell does not say: %s", orNothing(s.WhoErr))
	case s.Who.How != lockapi.HowNone:
		g.ok("%s, by %s", s.Who.Principal, s.Who.How)
	case s.Token:
		g.add(Warn, "", "a token was sent, and the cell takes us for %s", s.Who.Principal)
	case s.Cell != nil && s.Cell.Access:
		g.add(Warn, "Say who you are: "+sayWho, "no credential is sent, and access is on: we may do what anonymous may")
	default:
		g.ok("%s, by no credential", s.Who.Principal)
	}
}

func orNothing(err error) string {
	if err == nil {
		return "no answer"
	}
	return err.Error()
}

func clientVersion(s *Seen, g *gathered) {
	for _, at := range s.answered() {
		switch v := at.Replica.Version; v {
		case "":
		case s.Version:
			g.ok("stout %s, as the cell", s.Version)
		default:
			g.add(Warn, "Nothing breaks by that. Upgrade the older one when you can: a program can't use what its cell does not know.", "stout is %s, and %s runs %s", s.Version, at.Replica.ID, v)
		}
	}
}
