// Package btree is a persistent ordered tree. A copy of a Tree costs nothing,
// and a change of one copy does not affect the other.
//
// It is a B-tree that copies nodes before it changes them, unless the same Edit
// has made them. So a batch of changes copies each affected node once, and
// readers of earlier trees never see a node change.
package btree

import "iter"

// Bounds of the values in a node other than the root. A change copies one node
// on each level, and a look-up compares within one. Smaller nodes are cheaper
// to copy, but make more levels.
const (
	most  = 15
	least = most / 2
)

// Tree holds values in key order, for reading. New returns the first one. Any
// goroutine may read it while no Edit of it changes it. A copy, made by
// assignment before Edit, remains readable during the changes.
type Tree[K, V any] struct {
	order func(K, V) int
	root  *node[V] // nil if the tree is empty
	size  int
}

// owner marks the nodes that an Edit may change in place; other trees may share
// the rest.
type owner struct{ _ byte }

// New returns an empty tree. order compares a key with that of a value: it is
// negative if the key comes first, and 0 if they are the same.
func New[K, V any](order func(K, V) int) Tree[K, V] { return Tree[K, V]{order: order} }

// Edit is a tree that one goroutine may change. It changes nodes that it has
// made in place, and copies all others first.
type Edit[K, V any] struct {
	*Tree[K, V]
	owner *owner
}

// Edit begins a series of changes. Copies of the tree made before do not see
// them.
func (t *Tree[K, V]) Edit() Edit[K, V] { return Edit[K, V]{t, new(owner)} }

// Len returns the number of values.
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

// From walks the values with keys not before k, in order. It walks the tree in
// its present state.
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
