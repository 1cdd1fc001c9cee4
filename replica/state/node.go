package state

// Node is what there is at a path: a lock that is held, waited for or delayed, a
// file, or both. A path without any of these has no node. It is immutable.
type Node struct {
	Path string
	Lock
	File *File // nil without one, which costs a lock alone nothing
}

// Lock is the lock of a node. The zero value is a free one.
type Lock struct {
	Mode    Mode // of the holders; 0 without one
	Holders int
	Waiters int
	// Limit is that of the shared holders and shared waiters, which all agree.
	Limit  int64
	shared int // shared holders + shared waiters
	// DelayID numbers the lock-delay in force, 0 = none; DelayMS is its length.
	DelayID uint64
	DelayMS int64
}

// Free reports whether nobody holds the lock, waits for it, or is delayed by
// it.
func (l *Lock) Free() bool { return l.Holders == 0 && l.Waiters == 0 && l.DelayID == 0 }

// node is a copy of the node at path, to be changed and put.
func (e *editor) node(path string) Node {
	if n, ok := e.nodes.Get(path); ok {
		return *n
	}
	return Node{Path: path}
}

// putNode stores n, or forgets the path when nothing is left there.
func (e *editor) putNode(n Node) {
	if was, ok := e.nodes.Get(n.Path); ok {
		e.bytes -= was.bytes()
		if !was.Free() {
			e.locks--
		}
	}
	e.bytes += n.bytes()
	if !n.Free() {
		e.locks++
	}
	if n.Free() && n.File == nil {
		e.nodes.Delete(n.Path)
		return
	}
	if n.shared == 0 {
		n.Limit = 0
	}
	if n.Holders == 0 {
		n.Mode = 0
	}
	e.nodes.Put(n.Path, &n)
}
