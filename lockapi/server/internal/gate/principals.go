package gate

import "sync"

// Principals counts the calls of each principal.
type Principals struct {
	mu sync.Mutex
	of map[string]int64
}

// Enter counts a call if its principal has fewer than most, and returns the
// count.
func (p *Principals) Enter(who string, most int64) (count int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.of[who]; n >= most {
		return n, false
	}
	if p.of == nil {
		p.of = map[string]int64{}
	}
	p.of[who]++
	return p.of[who], true
}

// Leave records the end of a call.
func (p *Principals) Leave(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[who]--; p.of[who] == 0 {
		delete(p.of, who)
	}
}
