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
	// mostNotices limits the writes that wait for standard error.
	mostNotices = 256
	// orderTime is how long an answer waits for earlier notices, so that a
	// terminal shows both in order.
	orderTime = 100 * time.Millisecond
	// lastNotices is how long the end of a run waits for its notices.
	lastNotices = time.Second
)

// newNotices returns standard error as a writer that never blocks.
func newNotices(to io.Writer) *nonblock.Writer {
	return nonblock.New(to, mostNotices, func(dropped uint64) []byte {
		return fmt.Appendf(nil, "stout: %s dropped: standard error was blocked\n", pluralOf(dropped, "notice", "notices"))
	})
}

// settle waits for earlier notices before other output is written.
func settle(notices *nonblock.Writer) { notices.Flush(orderTime) }

// answers is standard output. The first write that fails ends the run, see
// ending. Nothing is written after it, so the output has no gap.
type answers struct {
	to     io.Writer
	before func() // called before each write
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

// lost returns why an answer was not written, or nil.
func (o *answers) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}
