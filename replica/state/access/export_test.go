package access

// Reach is how many entries the policy counts.
func (p *Policy) Reach() int { return p.reach }

// MaxReach bounds it.
const MaxReach = maxReach
