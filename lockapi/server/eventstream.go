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
	if wrapped, ok := w.c.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		w.now, _ = wrapped.Unwrap().(unblocked)
	}
	if w.sendCompacted(refused) {
		return nil
	}
	if fresh && w.bookmark() != nil {
		return nil
	}
	tick := time.NewTicker(bookmarkEvery)
	defer tick.Stop()
	for {
		if w.deliver() != nil {
			return nil
		}
		select {
		case <-w.events.Ready():
		case <-tick.C:
			if w.deliver() != nil || w.bookmark() != nil {
				return nil
			}
		case <-w.stopping:
			return nil
		case <-w.ctx().Done():
			return nil
		}
	}
}

// unblocked is a reply that can send without waiting; see package wire.
type unblocked interface {
	FlushNow() (rest bool, err error)
}

// deliver sends the new events. It keeps its turn only while it need not wait
// for the caller. An error ends the stream.
func (w *watch) deliver() error {
	var (
		out  *buffer
		rest bool
		err  error
	)
	w.turns.take(func() (busy bool) {
		out, busy, err = w.read()
		if n := out.Len(); n > 0 && n <= fewBytes && w.now != nil {
			rest = w.sendNow(out.Bytes())
			out.Reset()
		}
		return busy
	})
	defer out.release()
	switch {
	case err != nil:
		return w.end(err)
	case rest:
		w.c.Writer.Flush()
	case out.Len() > 0:
		return w.push(&out.Buffer)
	}
	return w.ctx().Err()
}

// read returns the new events, encoded. busy reports whether the cell has
// changed further since the last of them. The caller releases the buffer.
func (w *watch) read() (out *buffer, busy bool, err error) {
	out = buffers.Get().(*buffer)
	found, upTo, err := w.events.Read(w.after, streamBatch, streamBytes)
	if err != nil {
		return out, false, err
	}
	for i := range found {
		if err := w.encoded.write(&out.Buffer, &found[i]); err != nil {
			return out, false, err
		}
		busy = found[i].Revision < upTo
	}
	w.after = upTo
	w.metrics.eventsTold.Add(float64(len(found)))
	return out, busy, nil
}

// sendNow sends what the connection accepts without waiting, and reports
// whether there is a rest to flush.
func (w *watch) sendNow(b []byte) (rest bool) {
	if _, err := w.c.Writer.Write(b); err != nil {
		return true // flushing returns the error again
	}
	rest, _ = w.now.FlushNow() // an error ends the context
	return rest
}

// end sends the last event of a stream, if it has one, and returns the error
// that ends the stream.
func (w *watch) end(err error) error {
	if denied := new(lockapi.Error); errors.As(err, &denied) && isDenial(denied.Code) {
		w.noted.code = denied.Code
		_ = w.event(w.after, lockapi.StreamDenied, struct{}{})
	}
	w.sendCompacted(err)
	return err
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
		select {
		case <-time.After(roomRecheck):
		case <-w.stopping:
			return errStreamEnds
		case <-w.ctx().Done():
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
