package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/nonblock"
)

const (
	// mostNotices bounds the writes that wait for standard error.
	mostNotices = 256
	// orderTime is how long an answer waits for the notices before it, so that
	// a terminal shows both in their order.
	orderTime = 100 * time.Millisecond
	// lastNotices is how long the end of a run waits for its notices.
	lastNotices = time.Second
)

// newNotices returns standard error as a writer that never waits for its reader.
func newNotices(to io.Writer) *nonblock.Writer {
	return nonblock.New(to, mostNotices, func(dropped uint64) []byte {
		return fmt.Appendf(nil, "stout: %s dropped: standard error was blocked\n", pluralOf(dropped, "notice", "notices"))
	})
}

// settle waits for the notices before what is written elsewhere next.
func settle(notices *nonblock.Writer) { notices.Flush(orderTime) }

// answers is standard output, through which all answers go. The first write
// that fails ends the run, see ending: what follows is not written, so that no
// output has a gap in it.
type answers struct {
	to     io.Writer
	before func() // is called before each write
	end    context.CancelCauseFunc

	mu     sync.Mutex
	failed error
}

func (o *answers) Write(p []byte) (int, error) {
	if err := o.lost(); err != nil {
		return 0, err
	}
	o.before()
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = err
		o.end(err)
	}
	return n, err
}

// lost returns why an answer was not written; nil if all were.
func (o *answers) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}
