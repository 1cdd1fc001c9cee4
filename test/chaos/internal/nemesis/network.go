package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

// networkFaults affect the links between replicas, also for forwarded calls.
// Clients reach every replica as before, unless they follow an address that a
// replica gave them.
var networkFaults = []fault{
	{name: "isolate", about: "cut one replica off from all others", least: time.Second, most: 6 * time.Second, begin: isolate},
	{name: "cut", about: "cut two replicas off from each other", least: time.Second, most: 6 * time.Second, begin: cut},
	{name: "one-way", about: "drop what one replica sends to another, or to all others", least: time.Second, most: 6 * time.Second, begin: oneWay},
	{name: "ring", about: "each replica reaches only its two neighbours: all see a majority, no two the same one", least: 2 * time.Second, most: 6 * time.Second, size: 5, begin: ring},
	{name: "slow", about: "add latency and jitter to some or all links", least: 2 * time.Second, most: 8 * time.Second, begin: slow},
	{name: "large-packets", about: "drop packets above 1200 bytes between two replicas, in one direction or both", least: 2 * time.Second, most: 8 * time.Second, begin: largePackets},
	{name: "lossy", about: "delay bytes for a while, break connections", least: 2 * time.Second, most: 8 * time.Second, begin: lossy},
}

func isolate(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	victim := n.any(ctx, r)
	n.Cell.Network().Isolate(victim.ID)
	return harm{what: victim.ID, replicas: []*cell.Replica{victim}, undo: func() error {
		for _, other := range n.Cell.Others(victim) {
			n.Cell.Network().HealBetween(victim.ID, other.ID)
		}
		return nil
	}}, nil
}

func cut(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	pair := n.some(ctx, r, 2)
	n.Cell.Network().Cut(pair[0].ID, pair[1].ID)
	return n.between(pair[0].ID+"–"+pair[1].ID, [2]string{pair[0].ID, pair[1].ID}), nil
}

// between returns the harm to some links; a heal undoes it.
func (n *Nemesis) between(what string, links ...[2]string) harm {
	return harm{what: what, links: links, undo: func() error {
		for _, l := range links {
			n.Cell.Network().HealBetween(l[0], l[1])
		}
		return nil
	}}
}

func oneWay(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	pair := n.some(ctx, r, 2)
	from, to := pair[0].ID, pair[1].ID
	switch r.IntN(3) {
	case 0:
		n.Cell.Network().CutOneWay(from, to)
		return n.between(from+"→"+to, [2]string{from, to}), nil
	case 1:
		n.Cell.Network().CutOneWay(to, from)
		return n.between(to+"→"+from, [2]string{from, to}), nil
	}
	var links [][2]string
	for _, other := range n.Cell.Others(pair[0]) {
		n.Cell.Network().CutOneWay(from, other.ID)
		links = append(links, [2]string{from, other.ID})
	}
	return n.between(from+"→all", links...), nil
}

// passing is at least the size of any message without entries, but small enough
// that an entry of a few commands is larger.
const passing = 1200

func largePackets(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	pair := n.some(ctx, r, 2)
	from, to := pair[0].ID, pair[1].ID
	arrow := "→"
	switch r.IntN(3) {
	case 0:
		n.Cell.Network().Shape(to, from, cell.Shape{Largest: passing})
		arrow = "↔"
	case 1:
		from, to = to, from
	}
	n.Cell.Network().Shape(from, to, cell.Shape{Largest: passing})
	return n.between(from+arrow+to, [2]string{from, to}), nil
}

func ring(_ context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	order := ids(n.Cell.Replicas())
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, p := range apart(order) {
		n.Cell.Network().Cut(p[0], p[1])
	}
	return n.between(strings.Join(order, "–"), apart(order)...), nil
}

// apart returns the pairs that are not neighbours in a ring.
func apart(ring []string) (pairs [][2]string) {
	for i := range ring {
		for j := i + 2; j < len(ring) && j-i < len(ring)-1; j++ {
			pairs = append(pairs, [2]string{ring[i], ring[j]})
		}
	}
	return pairs
}

func slow(_ context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	s := cell.Shape{
		Latency: between(r, 0, 120*time.Millisecond),
		Jitter:  between(r, 1, 120*time.Millisecond),
	}
	return n.shapeSome(r, s, fmt.Sprintf("%v + up to %v", s.Latency.Round(time.Millisecond), s.Jitter.Round(time.Millisecond))), nil
}

func lossy(_ context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	s := cell.Shape{Stall: 0.01 + 0.2*r.Float64(), StallFor: between(r, 100*time.Millisecond, 400*time.Millisecond).Round(time.Millisecond), Reset: 0.03 * r.Float64()}
	return n.shapeSome(r, s, fmt.Sprintf("%.0f %% late by %v, %.1f %% resets", 100*s.Stall, s.StallFor, 100*s.Reset)), nil
}

// shapeSome shapes all directions between replicas, or each with a probability
// of one half.
func (n *Nemesis) shapeSome(r *rand.Rand, s cell.Shape, how string) harm {
	every := r.IntN(2) == 0
	where := "all ways"
	if !every {
		where = "ways"
	}
	var shaped [][2]string
	for _, from := range n.Cell.Replicas() {
		for _, to := range n.Cell.Others(from) {
			if !every && r.IntN(2) == 0 {
				continue
			}
			n.Cell.Network().Shape(from.ID, to.ID, s)
			shaped = append(shaped, [2]string{from.ID, to.ID})
			if !every {
				where += " " + from.ID + "→" + to.ID
			}
		}
	}
	return harm{what: where + ": " + how, links: shaped, undo: func() error {
		for _, w := range shaped {
			n.Cell.Network().Shape(w[0], w[1], cell.Shape{})
		}
		return nil
	}}
}
