package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stoutlock/stout/lockapi"
)

// sighting is a token in an answer: it was granted before that answer.
type sighting struct {
	attempt     *Attempt
	path, who   string
	token       uint64
	call, shown int64
}

// tokens finds tokens that did not grow. A grant requested after an answer
// showed another one must have a higher token, on any paths. All grants have
// different tokens.
func tokens(attempts []*Attempt) (problems []string) {
	var granted, shown []sighting
	owners := map[uint64]sighting{}
	see := func(s sighting) {
		shown = append(shown, s)
		if first, known := owners[s.token]; known && (first.path != s.path || first.who != s.who) {
			problems = append(problems, fmt.Sprintf("token %d belongs to two grants: %v and %v", s.token, first.attempt, s.attempt))
		} else if !known {
			owners[s.token] = s
		}
	}
	asked := map[string]int64{}     // by cause: the first attempt that could cause a grant
	unsure := map[string]int64{}    // by hold: the first transaction of unknown outcome that may have taken it
	released := map[string]uint64{} // by hold: the last token that was released
	for _, a := range attempts {
		if a.Kind == Transact && a.Outcome == Unknown {
			for _, hold := range a.acquires() {
				if _, known := unsure[hold]; !known {
					unsure[hold] = a.Call
				}
			}
		}
		if name := a.causeKey(); (a.Kind == Acquire || a.Kind == Transact) && a.Outcome != NoEffect {
			if _, known := asked[name]; !known {
				asked[name] = a.Call
			}
		}
		for _, h := range a.Holders {
			see(sighting{a, a.Path, pair(h.Session, h.Handle), h.Token, a.Call, a.Return})
		}
		if a.Kind == Acquire && a.Outcome == Done {
			s := sighting{a, a.Path, a.who(), a.Token, asked[a.causeKey()], a.Return}
			see(s)
			granted = append(granted, s)
		}
		for hold, token := range a.released() {
			released[hold] = token
		}
		for _, g := range a.grants() {
			s := sighting{a, g.Path, pair(g.Session, g.Handle), g.Token, asked[a.causeKey()], a.Return}
			hold := s.path + " " + s.who
			first, told := owners[s.token]
			see(s)
			if told && first.path == s.path && first.who == s.who && released[hold] != s.token {
				continue // the session holds the lock already
			}
			if call, maybe := unsure[hold]; maybe {
				s.call = min(s.call, call)
			}
			granted = append(granted, s)
		}
	}
	slices.SortFunc(shown, func(x, y sighting) int { return cmp.Compare(x.shown, y.shown) })
	slices.SortFunc(granted, func(x, y sighting) int { return cmp.Compare(x.call, y.call) })
	var highest sighting
	for i := 0; len(granted) > 0; granted = granted[1:] {
		g := granted[0]
		for ; i < len(shown) && shown[i].shown < g.call; i++ {
			if shown[i].token > highest.token {
				highest = shown[i]
			}
		}
		if g.token <= highest.token && (g.path != highest.path || g.who != highest.who || g.token != highest.token) {
			problems = append(problems, fmt.Sprintf("token %d was granted after %d had been: %v, after %v", g.token, highest.token, g.attempt, highest.attempt))
		}
	}
	return problems
}

// causeKey identifies the attempts that can cause the same grant: an acquire's
// path and pair, a transaction's key.
func (a *Attempt) causeKey() string { return a.Path + " " + a.who() + " " + a.Key }

// grants returns the grants of a transaction.
func (a *Attempt) grants() (all []*lockapi.Grant) {
	if a.Files == nil {
		return nil
	}
	for _, r := range a.Files.executed() {
		if r.Grant != nil {
			all = append(all, r.Grant)
		}
	}
	return all
}

// acquires returns the holds that a transaction may take, as path and pair.
func (a *Attempt) acquires() (holds []string) {
	for op := range a.Files.operations() {
		if op.Acquire != nil {
			holds = append(holds, op.Acquire.Path+" "+pair(a.Session, op.Acquire.Handle))
		}
	}
	return holds
}

// released returns the holds that a transaction released, with their tokens.
func (a *Attempt) released() map[string]uint64 {
	if a.Files == nil {
		return nil
	}
	holds := map[string]uint64{}
	for op, r := range a.Files.executed() {
		if op.Release != nil && r.Released != nil && r.Released.Released {
			holds[op.Release.Path+" "+pair(a.Session, op.Release.Handle)] = op.Release.Token
		}
	}
	return holds
}

// outOfOrder finds grants out of queue order. A pair that received its queue
// position (202) keeps it. A later request for the lock must get a higher
// token.
func outOfOrder(attempts []*Attempt) (problems []string) {
	placed := map[string]*Attempt{} // by pair: its first 202
	granted := map[string]*Attempt{}
	first := map[string]int64{}
	for _, a := range attempts {
		if a.Kind != Acquire || a.Outcome == NoEffect {
			continue
		}
		if _, known := first[a.who()]; !known {
			first[a.who()] = a.Call
		}
		switch {
		case a.Outcome == Queued && placed[a.who()] == nil:
			placed[a.who()] = a
		case a.Outcome == Done && granted[a.who()] == nil:
			granted[a.who()] = a
		}
	}
	for who, place := range placed {
		g := granted[who]
		if g == nil {
			continue // it may have given up its position
		}
		for other, o := range granted {
			if first[other] > place.Return && o.Token < g.Token {
				problems = append(problems, fmt.Sprintf("%v was overtaken by %v: it got token %d", place, o, g.Token))
			}
		}
	}
	return problems
}

// wrong finds answers that these calls cannot get by the contract.
func wrong(attempts []*Attempt) (problems []string) {
	for _, a := range attempts {
		if a.Outcome == Wrong {
			problems = append(problems, "an answer outside the contract: "+a.String())
		}
	}
	return problems
}

// crowded finds reads that show incompatible holders.
func crowded(attempts []*Attempt) (problems []string) {
	for _, a := range attempts {
		if a.Kind != Read || a.Outcome != Done {
			continue
		}
		exclusive := slices.ContainsFunc(a.Holders, func(h lockapi.Holder) bool { return h.Mode == lockapi.Exclusive })
		if exclusive && len(a.Holders) > 1 || a.Limit > 0 && int64(len(a.Holders)) > a.Limit {
			problems = append(problems, fmt.Sprintf("too many holders at once: %v %+v", a, a.Holders))
		}
	}
	return problems
}
