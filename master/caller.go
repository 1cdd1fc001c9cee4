package master

// Caller is who a call is made for. The zero value is nobody in particular,
// which today everybody is, and the cell itself in what a master does unasked.
type Caller struct {
	// Principal is who the caller has proved to be. It goes into the log with
	// what is done for it (state.Command).
	Principal string
	// RemoteAddr is where the call came from, as host and port. It is only
	// shown to people; nothing is decided by it.
	RemoteAddr string
}
