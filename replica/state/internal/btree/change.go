package btree

// Put stores a value under its key and replaces an existing one.
func (t Edit[K, V]) Put(k K, v V) {
	if t.root == nil {
		t.root = &node[V]{owner: t.owner}
	}
	t.root = t.owned(t.root)
	if t.root.count == most {
		t.root = &node[V]{owner: t.owner, children: &[most + 1]*node[V]{t.root}}
		t.root.split(0)
	}
	for n := t.root; ; {
		i, found := t.search(n, k)
		switch {
		case found:
			n.values[i] = v
			return
		case n.children == nil:
			n.insert(i, v, 0, nil)
			t.size++
			return
		case n.children[i].count < most:
			n = t.ownedChild(n, i)
		default: // make room on the way down, and search again
			t.ownedChild(n, i)
			n.split(i)
		}
	}
}

// Delete removes the value with a key, if there is one.
func (t Edit[K, V]) Delete(k K) {
	if t.root == nil {
		return
	}
	t.root = t.owned(t.root)
	if t.delete(t.root, k) {
		t.size--
	}
	if t.root.count == 0 {
		t.root = t.root.child(0)
	}
}

// delete removes k from the subtree of n, which is owned and may end up with
// one value too few.
func (t Edit[K, V]) delete(n *node[V], k K) bool {
	i, found := t.search(n, k)
	switch {
	case n.children == nil && found:
		n.remove(i, i+1)
		return true
	case n.children == nil:
		return false
	case found:
		n.values[i] = t.deleteLast(t.ownedChild(n, i))
	case !t.delete(t.ownedChild(n, i), k):
		return false
	}
	t.refill(n, i)
	return true
}

// deleteLast deletes and returns the last value of the subtree of n.
func (t Edit[K, V]) deleteLast(n *node[V]) V {
	last := n.count
	if n.children == nil {
		v := n.values[last-1]
		n.remove(last-1, last)
		return v
	}
	v := t.deleteLast(t.ownedChild(n, last))
	t.refill(n, last)
	return v
}

// refill gives the i-th child of n a value from a neighbour, or joins the two,
// if the child has too few. n and the child are owned.
func (t Edit[K, V]) refill(n *node[V], i int) {
	if n.children[i].count >= least {
		return
	}
	switch c := n.children[i]; {
	case i > 0 && n.children[i-1].count > least:
		left := t.ownedChild(n, i-1)
		last := left.count - 1
		c.insert(0, n.values[i-1], 0, left.child(last+1))
		n.values[i-1] = left.values[last]
		left.remove(last, last+1)
	case i < n.count && n.children[i+1].count > least:
		right := t.ownedChild(n, i+1)
		c.insert(c.count, n.values[i], c.count+1, right.child(0))
		n.values[i] = right.values[0]
		right.remove(0, 0)
	case i > 0:
		t.ownedChild(n, i-1)
		n.join(i - 1)
	default:
		n.join(i)
	}
}

// owned returns n, or a copy if other trees may share it.
func (t Edit[K, V]) owned(n *node[V]) *node[V] {
	if n.owner == t.owner {
		return n
	}
	own := *n
	own.owner = t.owner
	if n.children != nil {
		children := *n.children
		own.children = &children
	}
	return &own
}

// ownedChild makes the i-th child of n owned. n is owned.
func (t Edit[K, V]) ownedChild(n *node[V], i int) *node[V] {
	n.children[i] = t.owned(n.children[i])
	return n.children[i]
}
