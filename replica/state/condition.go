package state

// Condition is what a transaction depends on. Each type has a row in the table of
// conditions (transactioncode.go).
type Condition interface {
	holds(s *State) bool
	size() int
}

// FileAt holds while a file's revision is that.
type FileAt struct {
	Path     string `cbor:"1,keyasint"`
	Revision uint64 `cbor:"2,keyasint"`
}

// FileExists holds while there is a file, or while there is none.
type FileExists struct {
	Path   string `cbor:"1,keyasint"`
	Exists bool   `cbor:"2,keyasint,omitempty"`
}

// GrantHeld holds while that very grant is held.
type GrantHeld struct {
	Sequencer Sequencer `cbor:"1,keyasint"`
}

// SessionLives holds while a session lives.
type SessionLives struct {
	Session string `cbor:"1,keyasint"`
}

// LockFree holds while nobody holds a lock, waits for it or is delayed by it.
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
