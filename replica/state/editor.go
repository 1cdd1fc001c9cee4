package state

import iradix "github.com/hashicorp/go-immutable-radix/v2"

// editor is a state under change: the header by value and a transaction per
// tree that is opened when it is first written to.
type editor struct {
	header
	sessions tree[*Session]
	keys     tree[string]
	locks    tree[*Lock]
	holds    tree[*Hold]
	queue    tree[*Wait]
	claims   tree[claim]
	events   []Event
}

func edit(s *State) *editor {
	return &editor{
		header:   s.header,
		sessions: tree[*Session]{base: s.sessions},
		keys:     tree[string]{base: s.keys},
		locks:    tree[*Lock]{base: s.locks},
		holds:    tree[*Hold]{base: s.holds},
		queue:    tree[*Wait]{base: s.queue},
		claims:   tree[claim]{base: s.claims},
	}
}

func (e *editor) commit() *State {
	return &State{
		header:   e.header,
		sessions: e.sessions.commit(),
		keys:     e.keys.commit(),
		locks:    e.locks.commit(),
		holds:    e.holds.commit(),
		queue:    e.queue.commit(),
		claims:   e.claims.commit(),
	}
}

func (e *editor) emit(ev Event) {
	ev.Index = e.Index
	e.events = append(e.events, ev)
}

func (e *editor) nextSeq() uint64 {
	e.Seq++
	return e.Seq
}

// tree is a persistent tree with at most one transaction on top.
type tree[V any] struct {
	base *iradix.Tree[V]
	txn  *iradix.Txn[V]
}

func (t *tree[V]) get(k []byte) (V, bool) {
	if t.txn != nil {
		return t.txn.Get(k)
	}
	return t.base.Get(k)
}

func (t *tree[V]) put(k []byte, v V) {
	t.write().Insert(k, v)
}

func (t *tree[V]) del(k []byte) {
	t.write().Delete(k)
}

func (t *tree[V]) write() *iradix.Txn[V] {
	if t.txn == nil {
		t.txn = t.base.Txn()
	}
	return t.txn
}

func (t *tree[V]) root() *iradix.Node[V] {
	if t.txn != nil {
		return t.txn.Root()
	}
	return t.base.Root()
}

// first is the value with the lowest key under prefix.
func (t *tree[V]) first(prefix []byte) (V, bool) {
	it := t.root().Iterator()
	it.SeekPrefix(prefix)
	_, v, ok := it.Next()
	return v, ok
}

func (t *tree[V]) commit() *iradix.Tree[V] {
	if t.txn == nil {
		return t.base
	}
	return t.txn.CommitOnly()
}
