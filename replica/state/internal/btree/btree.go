// Package btree is a persistent ordered tree: a copy of a Tree costs nothing,
// and whatever happens to one of the two, the other stays as it was.
//
// It is a B-tree whose nodes are copied before they are changed, unless the same
// Edit has made them. So a batch of changes copies each node on its way once,
// and readers of earlier trees never see a node change.
package btree

import "iter"

// Bounds of what a node other than the root holds. A change copies one node on
// each level, and a look-up compares within one: smaller nodes are cheaper to
// copy, and there are more levels of them.
const (
	most  = 15
	least = most / 2
)

// Tree holds values in the order of their keys, to be read. Make the first one
// with New. It may be read from any goroutine while no Edit of it changes it; a
// copy, made by assignment before Edit, may be read on meanwhile.
type Tree[K, V any] struct {
	order func(K, V) int
	root  *node[V] // nil in an empty tree
	size  int
}

// owner tells nodes that may be changed in place from those that others may
// see.
type owner struct{ _ byte }

// New is an empty tree. order compares a key with that of a value: negative
// where it comes before, 0 where it is the same.
func New[K, V any](order func(K, V) int) Tree[K, V] { return Tree[K, V]{order: order} }

// Edit is a tree that may be changed, too, by one goroutine. Nodes that it has
// made are changed in place, all others are copied first.
type Edit[K, V any] struct {
	*Tree[K, V]
	owner *owner
}

// Edit begins a series of changes, which no copy of the tree made before sees.
func (t *Tree[K, V]) Edit() Edit[K, V] { return Edit[K, V]{t, new(owner)} }

// Len is the number of values.
func (t *Tree[K, V]) Len() int { return t.size }

// Get finds the value with a key.
func (t *Tree[K, V]) Get(k K) (v V, ok bool) {
	for n := t.root; n != nil; {
		i, found := t.search(n, k)
		if found {
			return n.values[i], true
		}
		n = n.child(i)
	}
	return v, false
}

// All walks all values in order.
func (t *Tree[K, V]) All() iter.Seq[V] {
	root := t.root
	return func(yield func(V) bool) { root.walk(yield) }
}

// From walks the values whose keys are not before k, in order. It walks the
// tree as it is now.
func (t *Tree[K, V]) From(k K) iter.Seq[V] {
	now := *t
	return func(yield func(V) bool) { now.walkFrom(now.root, k, yield) }
}

func (t *Tree[K, V]) walkFrom(n *node[V], k K, yield func(V) bool) bool {
	if n == nil {
		return true
	}
	i, found := t.search(n, k)
	if !found && !t.walkFrom(n.child(i), k, yield) {
		return false
	}
	return n.walkFrom(i, yield)
}

// search finds the first value of n that is not before k.
func (t *Tree[K, V]) search(n *node[V], k K) (i int, found bool) {
	low, high := 0, n.count
	for low < high {
		middle := int(uint(low+high) / 2)
		switch c := t.order(k, n.values[middle]); {
		case c == 0:
			return middle, true
		case c < 0:
			high = middle
		default:
			low = middle + 1
		}
	}
	return low, false
}
