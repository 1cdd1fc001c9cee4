package btree

// node holds count values and, unless it is a leaf, count+1 children.
type node[V any] struct {
	owner    *owner
	count    int
	values   [most]V
	children *[most + 1]*node[V]
}

// child returns the i-th child, nil in a leaf.
func (n *node[V]) child(i int) *node[V] {
	if n.children == nil {
		return nil
	}
	return n.children[i]
}

func (n *node[V]) walk(yield func(V) bool) bool {
	return n == nil || n.child(0).walk(yield) && n.walkFrom(0, yield)
}

// walkFrom walks the values of the subtree of n from the i-th value on.
func (n *node[V]) walkFrom(i int, yield func(V) bool) bool {
	for ; i < n.count; i++ {
		if !yield(n.values[i]) || !n.child(i+1).walk(yield) {
			return false
		}
	}
	return true
}

// insert inserts the i-th value and, unless n is a leaf, the j-th child.
func (n *node[V]) insert(i int, v V, j int, child *node[V]) {
	copy(n.values[i+1:n.count+1], n.values[i:n.count])
	n.values[i] = v
	n.count++
	if n.children != nil {
		copy(n.children[j+1:n.count+1], n.children[j:n.count])
		n.children[j] = child
	}
}

// remove removes the i-th value and, unless n is a leaf, the j-th child.
func (n *node[V]) remove(i, j int) {
	if n.children != nil {
		copy(n.children[j:n.count], n.children[j+1:n.count+1])
		n.children[n.count] = nil
	}
	copy(n.values[i:n.count-1], n.values[i+1:n.count])
	n.count--
	var none V
	n.values[n.count] = none
}

// split splits the i-th child, which is full. Both it and n, which has room,
// are owned.
func (n *node[V]) split(i int) {
	left := n.children[i]
	right := &node[V]{owner: left.owner, count: most - least - 1}
	middle := left.values[least]
	copy(right.values[:], left.values[least+1:])
	clear(left.values[least:])
	left.count = least
	if left.children != nil {
		right.children = new([most + 1]*node[V])
		copy(right.children[:], left.children[least+1:])
		clear(left.children[least+1:])
	}
	n.insert(i, middle, i+1, right)
}

// join joins the i-th child and the next one. n and the i-th child are owned.
func (n *node[V]) join(i int) {
	left, right := n.children[i], n.children[i+1]
	left.values[left.count] = n.values[i]
	copy(left.values[left.count+1:], right.values[:right.count])
	if left.children != nil {
		copy(left.children[left.count+1:], right.children[:right.count+1])
	}
	left.count += 1 + right.count
	n.remove(i, i+1)
}
