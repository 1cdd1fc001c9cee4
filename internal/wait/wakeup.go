package wait

// Wakeup makes a goroutine check again for what it awaits. Several wakeups
// before it checks count as one. Receive from it to wait.
type Wakeup chan struct{}

// NewWakeup returns a Wakeup without a pending wakeup.
func NewWakeup() Wakeup { return make(Wakeup, 1) }

// Wake wakes the receiver. It never blocks.
func (w Wakeup) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}
