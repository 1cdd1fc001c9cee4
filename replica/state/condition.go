package state

// Condition is a condition of a transaction. Each type has a row in the table
// of conditions (transactioncode.go).
type Condition interface {
	holds(s *State) bool
	size() int
}

// FileAt holds if a file exists and has that revision.
type FileAt struct {
	Path     string `cbor:"1,keyasint"`
	Revision uint64 `cbor:"2,keyasint"`
}

// FileExists holds if the file's existence equals Exists.
type FileExists struct {
	Path   string `cbor:"1,keyasint"`
	Exists bool   `cbor:"2,keyasint,omitempty"`
}

// GrantHeld holds while that exact grant is held.
type GrantHeld struct {
	Sequencer Sequencer `cbor:"1,keyasint"`
}

// SessionLives holds while a session lives.
type SessionLives struct {
	Session string `cbor:"1,keyasint"`
}

// LockFree holds while a lock has no holder, waiter or lock-delay.
type LockFree struct {
	Path string `cbor:"1,keyasint"`
}

func (c *FileAt) holds(s *State) bool {
	f, ok := s.File(c.Path)
	return ok && f.Revision == c.Revision
}

func (c *FileExists) holds(s *State) bool {
	_, ok := s.File(c.Path)
	return ok == c.Exists
}

func (c *GrantHeld) holds(s *State) bool { return s.Held(c.Sequencer) }

func (c *SessionLives) holds(s *State) bool {
	_, ok := s.Session(c.Session)
	return ok
}

func (c *LockFree) holds(s *State) bool {
	_, ok := s.Lock(c.Path)
	return !ok
}

func (c *FileAt) size() int       { return 32 + len(c.Path) }
func (c *FileExists) size() int   { return 32 + len(c.Path) }
func (c *GrantHeld) size() int    { return 32 + len(c.Sequencer.Path) }
func (c *SessionLives) size() int { return 32 + len(c.Session) }
func (c *LockFree) size() int     { return 32 + len(c.Path) }
