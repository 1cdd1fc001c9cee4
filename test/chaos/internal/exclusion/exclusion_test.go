package exclusion

import (
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

func always() bool { return true }

func TestResourceKeepsTheHighestToken(t *testing.T) {
	r := NewResource()
	for _, w := range []struct {
		token uint64
		want  bool
	}{{1, true}, {3, true}, {2, false}, {3, true}, {4, true}} {
		owner := string(rune('a' + w.token))
		if got := r.Write("/l", owner, w.token, nil); got != w.want {
			t.Errorf("a write with token %d: accepted %v, want %v", w.token, got, w.want)
		}
	}
	if !r.Write("/other", "z", 1, nil) {
		t.Error("the tokens of one path count on another")
	}
	if accepted, refused := r.Writes(); accepted != 5 || refused != 1 || len(r.Problems()) > 0 {
		t.Errorf("%d accepted, %d refused, problems %v", accepted, refused, r.Problems())
	}
}

// TestResourceFindsOverlaps: two problems are reported, a refusal while the
// holder's lease runs, and two users of one token. The refusal of a late holder
// is correct.
func TestResourceFindsOverlaps(t *testing.T) {
	r := NewResource()
	r.Write("/l", "b", 2, always)
	looked := 0
	r.Write("/l", "a", 1, func() bool { looked++; return looked == 1 }) // the hold's lease ends during the write
	r.Write("/l", "a", 1, func() bool { return false })
	if p := r.Problems(); len(p) > 0 {
		t.Fatalf("refusals of late writes are reported: %v", p)
	}
	r.Write("/l", "a", 1, always)
	r.Write("/l", "c", 2, always)
	p := strings.Join(r.Problems(), "\n")
	if !strings.Contains(p, "a was refused on /l although its hold was valid") || !strings.Contains(p, "b and c wrote to /l with the same token 2") {
		t.Errorf("problems: %s", p)
	}
}

// TestHoldsFindsOverlaps: exclusive holds exclude all others, and shared ones
// are compatible up to their limit. Holds that only touch do not overlap.
func TestHoldsFindsOverlaps(t *testing.T) {
	const x, s = lockapi.Exclusive, lockapi.Shared
	for name, c := range map[string]struct {
		holds []Hold
		want  string
	}{
		"one after the other":   {[]Hold{{Mode: x, From: 0, Until: 5}, {Mode: x, From: 5, Until: 9}}, ""},
		"two exclusive":         {[]Hold{{Mode: x, From: 4, Until: 9}, {Mode: x, From: 0, Until: 5}}, "two holds"},
		"one within another":    {[]Hold{{Mode: x, From: 0, Until: 9}, {Mode: x, From: 3, Until: 4}}, "two holds"},
		"exclusive and shared":  {[]Hold{{Mode: s, From: 0, Until: 5}, {Mode: x, From: 4, Until: 9}}, "two holds"},
		"shared":                {[]Hold{{Mode: s, From: 0, Until: 5}, {Mode: s, From: 4, Until: 9}}, ""},
		"within the limit":      {[]Hold{{Mode: s, Limit: 2, From: 0, Until: 5}, {Mode: s, Limit: 2, From: 4, Until: 9}, {Mode: s, Limit: 2, From: 6, Until: 7}}, ""},
		"more than the limit":   {[]Hold{{Mode: s, Limit: 1, From: 0, Until: 5}, {Mode: s, Limit: 1, From: 4, Until: 9}}, "more than 1"},
		"exclusive, other path": {[]Hold{{Mode: x, From: 0, Until: 5}, {Path: "/m", Mode: x, From: 4, Until: 9}}, ""},
	} {
		var l Holds
		for _, h := range c.holds {
			h.From, h.Until = h.From*time.Second, h.Until*time.Second
			l.Add(h)
		}
		if got := strings.Join(l.Problems(), "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}
