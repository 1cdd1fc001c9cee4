package quota

import (
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// Transaction reserves what a transaction of a principal may write in the larger of its
// branches, the locks of both branches, and its answer if that is remembered.
//
// Deletions earn no credit for the writes beside them: the files may be gone
// before the transaction is applied.
//
// An answer replaces the oldest one if the session has as many as are
// remembered. A transaction that only deletes and releases is not refused
// because of its answer: it makes room.
func (l *Ledger) Transaction(op *state.Transaction, principal string) (Reservation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state()
	var r Reservation
	if op.Session != "" {
		if r.own = l.account(s, op.Session); r.own == nil { // the log will find no session
			return r, nil
		}
	}
	cost, need := files(s, op.Then, principal)
	otherCost, otherNeed := files(s, op.Else, principal)
	r.cost = larger(cost, otherCost)
	need.more, need.files = larger(need.more, otherNeed.more), larger(need.files, otherNeed.files)
	if r.cost.Files > 0 {
		r.writer = l.owner(principal)
	}
	takeSums(s, op, &r.cost, &need.more)
	if op.Key == "" {
		return l.reserve(s, r, &need)
	}
	// The digest has a fixed length. Copies have the same writer.
	r.call = call{keyedCall, op.Session, op.Key, string(op.Digest) + principal}
	answer := op.AnswerAtMost()
	r.cost.add(&Sums{Bytes: answer, SessionBytes: answer}, 1)
	if !onlyRemoves(op) {
		if all := s.Answers(op.Session); r.own.keyed == 0 && all.Len() == state.MostAnswers {
			answer = max(0, answer-all.OldestBytes())
		}
		need.more.add(&Sums{Bytes: answer, SessionBytes: answer}, 1)
	}
	if _, again := s.Answer(op.Session, op.Key); again {
		need = charge{}
	}
	r, err := l.reserve(s, r, &need)
	if err == nil {
		r.own.keyed++
	}
	return r, err
}

// files returns what the files that a principal writes in a branch need, in full
// and in addition to the present files. A sequential file has no name yet.
func files(s *state.State, branch []state.Step, principal string) (cost Sums, need charge) {
	last := map[string]int{}
	for _, step := range branch {
		w, ok := step.(*state.Write)
		switch {
		case !ok:
		case w.Sequential:
			one := fileSums(w.Path, len(w.Content))
			one.Bytes += state.SequenceDigits
			cost.add(&one, 1)
			need.more.add(&one, 1)
			need.files.add(&one, 1)
		default:
			last[w.Path] = len(w.Content)
		}
	}
	for path, content := range last {
		one := fileSums(path, content)
		cost.add(&one, 1)
		f, there := s.File(path)
		if there {
			longer := int64(max(0, content-len(f.Content)))
			need.more.add(&Sums{Content: longer, Bytes: longer}, 1)
		} else {
			need.more.add(&one, 1)
		}
		if there && f.Principal == principal {
			longer := int64(max(0, content-len(f.Content)))
			one = Sums{Content: longer, Bytes: longer}
		}
		need.files.add(&one, 1)
	}
	return cost, need
}

func fileSums(path string, content int) Sums {
	return Sums{Files: 1, Content: int64(content), Bytes: state.BytesOfFile(path, content)}
}

// larger returns the larger of the sums of two branches, for each quota of
// files.
func larger(a, b Sums) Sums {
	return Sums{Files: max(a.Files, b.Files), Content: max(a.Content, b.Content), Bytes: max(a.Bytes, b.Bytes)}
}

// takeSums adds the locks that a transaction may take.
func takeSums(s *state.State, op *state.Transaction, cost, more *Sums) {
	type lock struct{ path, handle string }
	var seen map[lock]bool
	for _, branch := range [2][]state.Step{op.Then, op.Else} {
		for _, step := range branch {
			t, ok := step.(*state.Take)
			if !ok || seen[lock{t.Path, t.Handle}] {
				continue
			}
			if seen == nil {
				seen = map[lock]bool{}
			}
			seen[lock{t.Path, t.Handle}] = true
			one := handleSums(t.Path, t.Handle)
			cost.add(&one, 1)
			if hold, wait := s.HoldOrWait(op.Session, t.Path, t.Handle); hold == nil && wait == nil {
				more.add(&one, 1)
			}
		}
	}
}

// onlyRemoves reports whether a transaction only deletes and releases.
func onlyRemoves(op *state.Transaction) bool {
	for _, branch := range [2][]state.Step{op.Then, op.Else} {
		for _, step := range branch {
			switch step.(type) {
			case *state.Delete, *state.DeleteBelow, *state.Free:
			default:
				return false
			}
		}
	}
	return len(op.Then)+len(op.Else) > 0
}

// operatorsRules is how many of access.MaxRules are reserved for operators:
// they can still put a helpful rule after administrators of paths have used up
// the rest. For the same reason Bytes, which counts rules and groups, does not
// bind operators, and no quota is reserved for their rules.
const operatorsRules = 1000

// Rule reserves what a rule needs. The rule's administrator is not an operator.
func (l *Ledger) Rule(rule *access.Rule) (Reservation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state()
	r := Reservation{cost: Sums{Bytes: rule.Size(), rules: 1}}
	more := Sums{Bytes: rule.Size()}
	was, there := s.Policy().Rule(rule.Path)
	if there {
		more.Bytes -= was.Size()
	}
	if n := int64(s.Policy().RuleCount()) + l.underway.rules; !there && n >= access.MaxRules-operatorsRules {
		return Reservation{}, errRules(n)
	}
	return l.reserve(s, r, &charge{more: more})
}

func errRules(n int64) error {
	e := lockapi.TooMany("rules", n, access.MaxRules-operatorsRules, "the cell has %d rules; of %d the last %d are reserved for operators; delete unneeded rules, such as all below a path (DELETE %s?prefix=/path/)",
		n, access.MaxRules, operatorsRules, lockapi.RouteRules)
	e.RetryAfter = retryAfter
	return e
}
