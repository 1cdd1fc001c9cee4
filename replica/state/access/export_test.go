package access

// Reach returns the number of entries that the policy counts.
func (p *Policy) Reach() int { return p.reach }

// MaxReach is the maximum of Reach.
const MaxReach = maxReach
