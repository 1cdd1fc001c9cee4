package state

// EndDelay ends the lock-delay with that number. The result is Done or Nothing.
type EndDelay struct {
	Path string `cbor:"1,keyasint,omitempty"`
	ID   uint64 `cbor:"2,keyasint,omitempty"`
}

// DelayBegan reports the start of a lock-delay. If an earlier one is in force
// on the path, the new number replaces its number. The lock-delay then ends
// with the later of the two.
type DelayBegan struct {
	Path string
	ID   uint64
	MS   int64
}

// DelayEnded reports that a lock-delay is over.
type DelayEnded struct {
	Path string
	ID   uint64
}

func (op *EndDelay) wellFormed() bool { return plain(op.Path) }
func (op *EndDelay) size() int        { return 16 + len(op.Path) }

func (op *EndDelay) would(s *State) (Result, bool) {
	if n, ok := s.nodes.Get(op.Path); !ok || n.DelayID == 0 || n.DelayID != op.ID {
		return Nothing, false
	}
	return Done, true
}

func (op *EndDelay) do(e *editor, r Result) Result {
	n := e.node(op.Path)
	n.DelayID, n.DelayMS = 0, 0
	e.putNode(n)
	e.record(DelayEnded{Path: n.Path, ID: op.ID})
	e.settle(op.Path)
	return r
}

// delay starts a lock-delay, which replaces one in force. DelayMS keeps the
// longer of the two lengths: a new master restarts the delay with it.
func (e *editor) delay(path string, ms int64) {
	n := e.node(path)
	n.DelayID = e.nextSeq()
	n.DelayMS = max(n.DelayMS, ms)
	e.putNode(n)
	e.record(DelayBegan{Path: n.Path, ID: n.DelayID, MS: ms})
}
