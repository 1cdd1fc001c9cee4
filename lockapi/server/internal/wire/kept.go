package wire

// Kept is what a server keeps for callers that take their time.
type Kept struct {
	UnreadBytes int    // of replies that wait to be read
	UnreadCut   uint64 // replies cut off because they took too much
	HalfBytes   int    // of requests that have not arrived whole, and behind calls under way
	HalfCut     uint64 // of these, refused or cut off because they took too much
}

// Kept is what the server keeps now.
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
