package master

// wakeup has a goroutine look again at what it waits for. One that was woken
// and has not looked yet is not woken twice.
type wakeup chan struct{}

func newWakeup() wakeup { return make(wakeup, 1) }

// wake never blocks.
func (w wakeup) wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}
