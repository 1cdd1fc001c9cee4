package access

// Reach returns the number of entries that the policy counts.
func (p *Policy) Reach() int { return p.reach }
