package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/internal/wait"
)

const (
	// mostQueued bounds the lines in the queue, some 2 MiB.
	mostQueued = 4096
	// patience is how long a call waits for its line. A disk that takes longer
	// counts as hanging.
	patience = 2 * time.Second
	// retryEvery is the interval of retries after a failed write.
	retryEvery = time.Second
	// warnEvery is the interval of warnings about failed writes.
	warnEvery = time.Minute
)

// Options configure a log.
type Options struct {
	// Path is the file: a regular one, which is created if missing, a named
	// pipe or a device. "-" means Stdout.
	Path   string
	Stdout io.Writer
	// MaxBytes is the size at which a regular file is rotated, in whole MiB; 0
	// means never. Keep is how many old files are kept; 0 means all.
	MaxBytes int64
	Keep     int
	// Required makes changes be refused while the log cannot be written.
	Required bool
	Logger   zerolog.Logger
}

// Log is an audit log. Its methods are safe for concurrent use. A nil Log
// discards everything.
type Log struct {
	required bool
	logger   zerolog.Logger
	sink     sink
	lines    chan entry
	reopen   wait.Wakeup
	look     wait.Wakeup // failing was set by another goroutine
	denials  denials

	failing atomic.Pointer[error] // why the last write failed, or hangs; else nil
	written atomic.Uint64
	lost    atomic.Uint64
	dropped atomic.Uint64             // lines that found no place in the queue, and that no later line has reported yet
	writing atomic.Pointer[time.Time] // when the present write began; nil without one

	closing sync.Once
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed when the file is closed

	// These belong to the goroutine that has the file.
	untold uint64 // lines lost since the last written one
	torn   bool   // the file ends within a line

	warning sync.Mutex
	warned  time.Time // when a failed write was last reported; guarded by warning
}

// entry is a line in the queue. done, if not nil, receives its outcome.
type entry struct {
	text []byte
	done chan<- error
}

// Open opens the file and begins the log.
func Open(o Options) (*Log, error) {
	to, err := openSink(&o)
	if err != nil {
		return nil, err
	}
	return newLog(to, o.Required, o.Logger), nil
}

func newLog(to sink, required bool, logger zerolog.Logger) *Log {
	l := &Log{
		required: required, logger: logger, sink: to,
		lines: make(chan entry, mostQueued), reopen: wait.NewWakeup(), look: wait.NewWakeup(),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	l.denials.tell = l.Note
	l.Note(Record{Event: Started})
	go l.run()
	return l
}

// format returns a record's line, including its end. Text chosen by callers is
// escaped as in stoutd's own log.
func format(r *Record) []byte {
	var out bytes.Buffer
	to := zerolog.New(safetext.Lines(&out))
	r.line(&to, time.Now())
	return out.Bytes()
}

// Note writes a record without waiting. If the file cannot keep up, the line is
// lost and counted.
func (l *Log) Note(r Record) {
	if l == nil {
		return
	}
	select {
	case l.lines <- entry{text: format(&r)}:
	default:
		l.lost.Add(1)
		l.dropped.Add(1)
	}
	if l.isStuck() {
		l.warn(l.hangs())
	}
}

func (l *Log) isStuck() bool {
	began := l.writing.Load()
	return began != nil && time.Since(*began) > patience
}

// Denied counts a denial of a principal at a host and port, and reports whether
// it gets a line. Denials of one principal at one address beyond a few per
// second share one line with their number. The principal is empty if unknown.
func (l *Log) Denied(remote, principal string) bool {
	return l != nil && l.denials.admit(remote, principal)
}

// Required reports whether changes must be refused while the log cannot be
// written.
func (l *Log) Required() bool { return l != nil && l.required }

// Err returns why the log cannot be written now, or nil. It does not wait.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	if err := l.failing.Load(); err != nil {
		return *err
	}
	if l.isStuck() {
		return l.hangs()
	}
	return nil
}

// Demand writes a record, and returns when the file has it. After an error the
// record may be missing, so the caller must not do what it announces.
func (l *Log) Demand(ctx context.Context, r Record) error {
	if err := l.Err(); err != nil {
		l.lost.Add(1)
		return err
	}
	done := make(chan error, 1)
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case l.lines <- entry{format(&r), done}:
	case <-t.C:
		l.lost.Add(1)
		return l.hangs()
	case <-ctx.Done():
		l.lost.Add(1)
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-l.stopped:
		select {
		case err := <-done:
			return err
		default:
			return errors.New("the audit log is closed")
		}
	case <-t.C:
		return l.hangs()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hangs marks the log as failing, so that later calls do not wait. The next
// line that is written, however late, clears the mark.
func (l *Log) hangs() error {
	err := fmt.Errorf("its file has accepted no line for %v", patience)
	if l.failing.CompareAndSwap(nil, &err) {
		l.look.Wake()
	}
	return err
}

// Reopen opens the file again by its name, after it was moved away.
func (l *Log) Reopen() {
	if l != nil {
		l.reopen.Wake()
	}
}

// Close writes all lines noted so far, and closes the file. ctx bounds it: a
// file that hangs is abandoned.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.denials.flush()
	l.closing.Do(func() { close(l.stop) })
	select {
	case <-l.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the audit log's file did not accept the remaining lines: %w", ctx.Err())
	}
}

// run writes until Close. Lines that wait together are written together.
func (l *Log) run() {
	defer close(l.stopped)
	retry := time.NewTimer(retryEvery)
	defer retry.Stop()
	for {
		retry.Stop()
		if l.Err() != nil {
			retry.Reset(retryEvery)
		}
		select {
		case first := <-l.lines:
			l.collect(first)
		case <-l.reopen:
			l.openAgain()
		case <-l.look: // and have it retried
		case <-retry.C:
			_ = l.write(nil)
		case <-l.stop:
			l.finish()
			return
		}
	}
}

func (l *Log) finish() {
	if first := l.waiting(); first != nil {
		l.collect(*first)
	}
	if err := l.sink.Close(); err != nil {
		l.logger.Warn().Err(err).Msg("the audit log could not be closed properly")
	}
}

// mostTogether bounds a single write, in bytes. A pipe accepts that much as a
// whole.
const mostTogether = 4096

// collect writes an entry and those queued behind it.
func (l *Log) collect(first entry) {
	for next := &first; next != nil; {
		together, text := []entry{*next}, next.text
		for next = l.waiting(); next != nil && len(text)+len(next.text) <= mostTogether; next = l.waiting() {
			together, text = append(together, *next), append(text, next.text...)
		}
		err := l.writeNow(text, len(together))
		for _, e := range together {
			if e.done != nil {
				e.done <- err
			}
		}
	}
}

// waiting returns the next entry, or nil if the queue is empty.
func (l *Log) waiting() *entry {
	select {
	case next := <-l.lines:
		return &next
	default:
		return nil
	}
}

// writeNow writes, unless a write failed a moment ago. Then only the retries
// write, so that a full disk is not tried for each line.
func (l *Log) writeNow(text []byte, lines int) error {
	if err := l.Err(); err != nil && l.untold > 0 {
		l.lose(lines)
		return err
	}
	if err := l.write(text); err != nil {
		l.lose(lines)
		return err
	}
	l.written.Add(uint64(lines))
	return nil
}

func (l *Log) lose(lines int) {
	l.untold += uint64(lines)
	l.lost.Add(uint64(lines))
}

// write writes whole lines, preceded by a record of lost lines.
func (l *Log) write(text []byte) error {
	l.untold += l.dropped.Swap(0)
	missing := l.untold
	if missing > 0 {
		text = append(format(&Record{Event: Lost, Count: missing}), text...)
	}
	if l.torn {
		text = append([]byte{'\n'}, text...)
	}
	began := time.Now()
	l.writing.Store(&began)
	n, err := l.sink.Write(text)
	l.writing.Store(nil)
	if err == nil && n < len(text) {
		err = fmt.Errorf("%d bytes of %d were written", n, len(text))
	}
	if err != nil {
		l.torn = l.torn && n == 0 || n > 0
		l.failing.Store(&err)
		l.warn(err)
		return err
	}
	l.torn, l.untold = false, 0
	if l.failing.Swap(nil) != nil {
		l.warning.Lock()
		l.warned = time.Time{}
		l.warning.Unlock()
		l.logger.Info().Uint64("lost", missing).Msg("the audit log is written again")
	}
	return nil
}

func (l *Log) warn(err error) {
	l.warning.Lock()
	defer l.warning.Unlock()
	if now := time.Now(); now.Sub(l.warned) >= warnEvery {
		l.warned = now
		what := "the audit log cannot be written: its lines are lost, and counted"
		if l.required {
			what = "the audit log cannot be written: changes are refused (audit-required)"
		}
		l.logger.Error().Err(err).Uint64("lost", l.lost.Load()).Msg(what)
	}
}

func (l *Log) openAgain() {
	if err := l.sink.Reopen(); err != nil {
		l.logger.Error().Err(err).Msg("the audit log cannot be reopened; the open file stays in use")
		return
	}
	l.torn = l.torn && !l.sink.EndsLines()
	l.logger.Info().Msg("the audit log was reopened")
	if l.Err() != nil {
		_ = l.write(nil)
	}
}

// Counts are the totals of a log.
type Counts struct {
	Written, Lost uint64 // lines
	Suppressed    uint64 // denials that have no line of their own
	Failing       bool   // the last write has failed, or hangs
}

// Counts returns the totals of the log so far.
func (l *Log) Counts() Counts {
	return Counts{l.written.Load(), l.lost.Load(), l.denials.suppressed.Load(), l.Err() != nil}
}
