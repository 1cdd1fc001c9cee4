package state

// Node is what exists at a path: a lock that is held, waited for or delayed, a
// file, or both. A path without any of these has no node. It is immutable.
type Node struct {
	Path string
	Lock
	File *File // nil if there is only a lock, which then costs no more
}

// Lock is the lock of a node. The zero value is a free one.
type Lock struct {
	Mode    Mode // of the holders; 0 without holders
	Holders int
	Waiters int
	// Limit is the limit of the shared holders and shared waiters, which all
	// agree.
	Limit  int64
	shared int // shared holders + shared waiters
	// DelayID numbers the lock-delay in force, or is 0. DelayMS is its length.
	DelayID uint64
	DelayMS int64
}

// Free reports whether the lock has no holder, waiter or lock-delay.
func (l *Lock) Free() bool { return l.Holders == 0 && l.Waiters == 0 && l.DelayID == 0 }

// node returns a copy of the node at path, to be changed and stored.
func (e *editor) node(path string) Node {
	if n, ok := e.nodes.Get(path); ok {
		return *n
	}
	return Node{Path: path}
}

// putNode stores n, or removes the node if it is empty.
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
