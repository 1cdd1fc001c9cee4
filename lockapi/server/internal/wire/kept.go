package wire

// Kept describes the memory that a server holds for slow callers.
type Kept struct {
	UnreadBytes int    // of replies that wait to be read
	UnreadCut   uint64 // replies cut off because they took too much memory
	HalfBytes   int    // of incomplete requests, and of bytes sent during calls
	HalfCut     uint64 // of these, refused or cut off because they took too much memory
}

// Kept returns the present figures.
func (s *Server) Kept() Kept {
	var k Kept
	s.unread.mu.Lock()
	k.UnreadBytes, k.UnreadCut = s.unread.bytes, s.unread.cut
	s.unread.mu.Unlock()
	s.half.mu.Lock()
	k.HalfBytes, k.HalfCut = s.half.bytes, s.half.cut
	s.half.mu.Unlock()
	return k
}
