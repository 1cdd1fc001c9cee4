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
	k.UnreadBytes, k.UnreadCut = s.unread.counts()
	k.HalfBytes, k.HalfCut = s.half.counts()
	return k
}

func (l *ledger) counts() (bytes int, cut uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes, l.cut
}
