package master

import (
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// operatorsRules is how many of access.MaxRules are kept for operators: they can still
// put the rule that helps when administrators of paths have put all they can. For the
// same reason max-bytes, in which rules and groups count, does not bind operators here.
const operatorsRules = 1000

// policyIs counts the bytes of rules and groups as they are now. a.mu is held.
func (a *accounting) policyIs(bytes int64) {
	a.cell.bytes += bytes - a.policy
	a.policy = bytes
}

// ruleRoom takes the room that a change of access needs; leave has to be called when
// that is answered. Only rules of callers that are no operators need any.
func (o *office) ruleRoom(by *Caller, op state.Operation) (leave func(), err error) {
	put, ok := op.(*state.PutRule)
	if s := o.log.State(); !ok || !s.AccessOn || s.Policy().Operates(by.who()) {
		return func() {}, nil
	}
	rule := put.Rule
	rule.Principal = by.Principal
	return o.accounting.reserveRule(&rule)
}

func (a *accounting) reserveRule(r *access.Rule) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, more := a.log.State().Policy(), usage{bytes: r.Size()}
	was, there := p.Rule(r.Path)
	if there {
		more.bytes -= was.Size()
	}
	if n := p.RuleCount() + a.ruling; !there && n >= access.MaxRules-operatorsRules {
		return nil, errRules(n)
	}
	if e := a.exceeds(nil, more); e != nil {
		return nil, a.refuse(e)
	}
	more.bytes = max(more.bytes, 0)
	a.cell.add(more, 1)
	a.ruling++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cell.add(more, -1)
		a.ruling--
	}, nil
}

func errRules(n int) *lockapi.Error {
	e := lockapi.Errorf(lockapi.CodeTooMany, "the cell has %d rules; of %d the last %d are kept for operators; delete rules that are not needed, such as all below a path (DELETE %s?prefix=/path/)",
		n, access.MaxRules, operatorsRules, lockapi.RouteRules)
	e.RetryAfter = quotaRetryAfter
	return e
}
