package server

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// A stream reads up to streamBatch events at a time with up to streamBytes of
// content, or one event with more. Every bookmarkEvery it reports its position.
const (
	streamBatch   = 64
	streamBytes   = 64 << 10
	bookmarkEvery = lockapi.MaxBookmarkMS * time.Millisecond * 4 / 5
)

// Header values of a stream. They are never modified.
var (
	typeEvents  = []string{lockapi.TypeEventStream}
	noBuffering = []string{"no"} // for proxies (nginx)
)

// atOnce is closed: there may be more events to send.
var atOnce = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// errStreamEnds ends a stream regularly.
var errStreamEnds = errors.New("the stream is over")

// stream sends server-sent events. It ends when the caller disconnects, is too
// far behind or does not read, and when this replica stops or must no longer
// answer from its own state. The caller continues with Last-Event-ID, at any
// replica. With fresh the stream begins with its starting revision, which the
// caller does not know yet. A stream refused as compacted ends at once.
func (w *watch) stream(fresh bool, refused error) error {
	h := w.c.Writer.Header()
	w.stamp(h)
	w.identify()
	h["Content-Type"], h["X-Accel-Buffering"] = typeEvents, noBuffering
	w.c.Writer.WriteHeader(http.StatusOK)
	if w.c.Request.Method == http.MethodHead {
		w.c.Writer.WriteHeaderNow()
		return nil
	}
	w.trimHeaders()
	w.c.Writer.Flush()
	if w.sendCompacted(refused) {
		return nil
	}
	if fresh && w.bookmark() != nil {
		return nil
	}
	tick := time.NewTicker(bookmarkEvery)
	defer tick.Stop()
	for {
		more, err := w.deliver()
		if err != nil {
			return nil
		}
		next := w.events.Ready()
		if more {
			next = atOnce
		}
		select {
		case <-next:
		case <-tick.C:
			if _, err := w.deliver(); err != nil || w.bookmark() != nil {
				return nil
			}
		case <-w.stopping:
			return nil
		case <-w.ctx().Done():
			return nil
		}
	}
}

// deliver sends the new events, and reports whether there were any. An error
// ends the stream.
func (w *watch) deliver() (more bool, err error) {
	found, upTo, err := w.events.Read(w.after, streamBatch, streamBytes)
	if w.sendCompacted(err) {
		return false, errStreamEnds
	}
	if denied := new(lockapi.Error); errors.As(err, &denied) && isDenial(denied.Code) {
		w.noted.code = denied.Code
		_ = w.event(w.after, lockapi.StreamDenied, struct{}{})
		return false, errStreamEnds
	}
	if err != nil {
		return false, err
	}
	var out bytes.Buffer
	for i := range found {
		if err := w.encoded.write(&out, &found[i]); err != nil {
			return false, err
		}
	}
	w.after = upTo
	if len(found) == 0 {
		return false, nil
	}
	if err := w.push(&out); err != nil {
		return false, err
	}
	w.metrics.eventsTold.Add(float64(len(found)))
	return true, nil
}

// sendCompacted sends the last event of a stream if the error is compacted, and
// reports whether it is.
func (w *watch) sendCompacted(err error) bool {
	gone := new(lockapi.Error)
	if !errors.As(err, &gone) || gone.Code != lockapi.CodeCompacted {
		return false
	}
	w.metrics.compacted.Inc()
	_ = w.event(gone.Revision, lockapi.StreamCompacted, gone.Compacted)
	return true
}

// bookmark reports to the caller up to which revision the stream is complete.
func (w *watch) bookmark() error {
	return w.event(w.after, lockapi.StreamBookmark, lockapi.Bookmark{Revision: w.after, Cell: w.attached.Load().cell[0]})
}

func (w *watch) event(id uint64, name string, data any) error {
	var out bytes.Buffer
	if err := writeEvent(&out, id, name, data); err != nil {
		return err
	}
	return w.push(&out)
}

// push sends the output, as fast as the connection accepts it. Its memory is
// bounded for all streams together: if many callers do not read, the other
// streams wait until the first of those are cut off.
func (w *watch) push(out *bytes.Buffer) error {
	if n := out.Len(); n > fewBytes {
		if err := w.awaitRoom(n); err != nil {
			return err
		}
		defer w.streamed.Leave(n)
	}
	if _, err := w.c.Writer.Write(out.Bytes()); err != nil {
		return err
	}
	w.c.Writer.Flush()
	return w.ctx().Err()
}

// roomRecheck is how often a stream checks for room.
const roomRecheck = 20 * time.Millisecond

func (w *watch) awaitRoom(n int) error {
	for !w.streamed.Enter(n) {
		t := time.NewTimer(roomRecheck)
		select {
		case <-t.C:
		case <-w.stopping:
			t.Stop()
			return errStreamEnds
		case <-w.ctx().Done():
			t.Stop()
			return errStreamEnds
		}
	}
	return nil
}

// writeEvent writes one event of a stream. The encoded JSON has a line end only
// at its end, so neither a path nor a content can end the event.
func writeEvent(out *bytes.Buffer, id uint64, name string, data any) error {
	b, err := encode(data)
	if err != nil {
		return err
	}
	defer b.release()
	out.WriteString("id: ")
	out.WriteString(strconv.FormatUint(id, 10))
	out.WriteString("\nevent: ")
	out.WriteString(name)
	out.WriteString("\ndata: ")
	out.Write(b.Bytes())
	out.WriteByte('\n')
	return nil
}
