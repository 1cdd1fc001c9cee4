package wait

// Wakeup makes a goroutine look again at what it waits for. Several wakeups before it looks
// count as one. Receive from it to wait.
type Wakeup chan struct{}

// NewWakeup returns one that nobody has woken.
func NewWakeup() Wakeup { return make(Wakeup, 1) }

// Wake never blocks.
func (w Wakeup) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}
