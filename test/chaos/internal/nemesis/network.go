package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

// networkFaults are done to the ways between replicas, those of forwarded calls
// included. Clients reach every replica as before, unless they follow an
// address that a replica gave them.
var networkFaults = []fault{
	{name: "isolate", about: "cut one replica off from all others", least: time.Second, most: 6 * time.Second, begin: isolate},
	{name: "cut", about: "cut two replicas off from each other", least: time.Second, most: 6 * time.Second, begin: cut},
	{name: "one-way", about: "one replica is not heard by another, or by all others", least: time.Second, most: 6 * time.Second, begin: oneWay},
	{name: "ring", about: "each replica reaches its two neighbours only: all see a majority, no two the same", least: 2 * time.Second, most: 6 * time.Second, size: 5, begin: ring},
	{name: "slow", about: "latency and jitter on some or all ways", least: 2 * time.Second, most: 8 * time.Second, begin: slow},
	{name: "lossy", about: "bytes stand still for a while, connections break", least: 2 * time.Second, most: 8 * time.Second, begin: lossy},
}

func isolate(ctx context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	victim := n.any(ctx, r)
	n.Cell.Network().Isolate(victim.ID)
	return victim.ID, func() error {
		for _, other := range n.Cell.Others(victim) {
			n.Cell.Network().HealBetween(victim.ID, other.ID)
		}
		return nil
	}, nil
}

func cut(ctx context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	pair := n.some(ctx, r, 2)
	n.Cell.Network().Cut(pair[0].ID, pair[1].ID)
	return pair[0].ID + "–" + pair[1].ID, n.healing(pair[0].ID, pair[1].ID), nil
}

func (n *Nemesis) healing(a, b string) func() error {
	return func() error {
		n.Cell.Network().HealBetween(a, b)
		return nil
	}
}

func oneWay(ctx context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	pair := n.some(ctx, r, 2)
	from, to := pair[0], pair[1]
	switch r.IntN(3) {
	case 0:
		n.Cell.Network().CutOneWay(from.ID, to.ID)
		return from.ID + "→" + to.ID, n.healing(from.ID, to.ID), nil
	case 1:
		n.Cell.Network().CutOneWay(to.ID, from.ID)
		return to.ID + "→" + from.ID, n.healing(from.ID, to.ID), nil
	}
	for _, other := range n.Cell.Others(from) {
		n.Cell.Network().CutOneWay(from.ID, other.ID)
	}
	return from.ID + "→all", func() error {
		for _, other := range n.Cell.Others(from) {
			n.Cell.Network().HealBetween(from.ID, other.ID)
		}
		return nil
	}, nil
}

func ring(_ context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	order := ids(n.Cell.Replicas())
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, p := range apart(order) {
		n.Cell.Network().Cut(p[0], p[1])
	}
	return strings.Join(order, "–"), func() error {
		for _, p := range apart(order) {
			n.Cell.Network().HealBetween(p[0], p[1])
		}
		return nil
	}, nil
}

// apart are the pairs that are no neighbours in a ring.
func apart(ring []string) (pairs [][2]string) {
	for i := range ring {
		for j := i + 2; j < len(ring) && j-i < len(ring)-1; j++ {
			pairs = append(pairs, [2]string{ring[i], ring[j]})
		}
	}
	return pairs
}

func slow(_ context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	s := cell.Shape{
		Latency: between(r, 0, 120*time.Millisecond),
		Jitter:  between(r, 1, 120*time.Millisecond),
	}
	where, undo := n.shapeSome(r, s)
	return fmt.Sprintf("%s: %v + up to %v", where, s.Latency.Round(time.Millisecond), s.Jitter.Round(time.Millisecond)), undo, nil
}

func lossy(_ context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	s := cell.Shape{Stall: 0.01 + 0.2*r.Float64(), StallFor: between(r, 100*time.Millisecond, 400*time.Millisecond).Round(time.Millisecond), Reset: 0.03 * r.Float64()}
	where, undo := n.shapeSome(r, s)
	return fmt.Sprintf("%s: %.0f %% late by %v, %.1f %% resets", where, 100*s.Stall, s.StallFor, 100*s.Reset), undo, nil
}

// shapeSome shapes each direction between two replicas with a probability of a
// half, or all of them.
func (n *Nemesis) shapeSome(r *rand.Rand, s cell.Shape) (where string, undo func() error) {
	every := r.IntN(2) == 0
	where = "all ways"
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
	return where, func() error {
		for _, w := range shaped {
			n.Cell.Network().Shape(w[0], w[1], cell.Shape{})
		}
		return nil
	}
}
