package wire

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
)

// mostPiece bounds what is kept of a reply that is sent in pieces. Further
// output is sent at once.
const mostPiece = 32 << 10

// framing is how the end of a reply's body is marked.
type framing int

const (
	whole    framing = iota // kept until the handler has returned, then sent with its length
	chunked                 // in chunks
	counted                 // by the handler's Content-Length
	toTheEnd                // by the end of the connection, as in HTTP/1.0
	bodiless                // no body
)

// errShort ends the connection of a reply that is shorter than announced.
var errShort = errors.New("the handler wrote less than its Content-Length")

// Flush is FlushError for http.Flusher. An error ends the request's context.
func (w *reply) Flush() { _ = w.FlushError() }

// FlushError sends the output since the last flush, waiting up to WriteTimeout
// for the connection. After the first flush the reply is sent in pieces: its
// status and headers are out, and at most mostPiece of its body is kept. An
// error ends the connection and the request's context.
func (w *reply) FlushError() error {
	if w.framing == whole {
		if err := w.begin(); err != nil {
			return w.fail(err)
		}
	}
	return w.piece(false)
}

// FlushNow is FlushError, but sends only what the connection accepts without
// waiting. rest reports whether there is more to send; a flush sends it.
func (w *reply) FlushNow() (rest bool, err error) {
	c := w.conn
	if w.framing == whole || c.raw == nil || w.head.Len() > 0 || w.body.Len() > mostJoined {
		return true, nil
	}
	if w.err != nil {
		return false, w.err
	}
	w.frame(false)
	w.head.Write(w.body.Bytes())
	w.body.Reset()
	c.out = w.head.Bytes()
	err = c.raw.Write(c.tryWrite)
	w.head.Next(w.head.Len() - len(c.out))
	if c.out = nil; err != nil {
		return false, w.fail(err)
	}
	if w.head.Len() > 0 {
		return true, nil
	}
	w.reset()
	return false, nil
}

// begin chooses the framing of the pieces, and puts the head before the first
// one.
func (w *reply) begin() error {
	w.WriteHeader(http.StatusOK)
	h := w.header
	length, err := strconv.ParseUint(h.Get("Content-Length"), 10, 63)
	switch {
	case hasNoBody(w.status):
		w.framing = bodiless
	case w.bare:
		w.framing = bodiless
	case err == nil:
		w.framing, w.left = counted, int64(length)
	case w.minor == 0:
		w.framing, w.close = toTheEnd, true
	default:
		w.framing = chunked
	}
	w.count()
	delete(h, "Transfer-Encoding")
	if err != nil {
		delete(h, "Content-Length")
	}
	if w.framing == chunked {
		h["Transfer-Encoding"] = chunkedCoding
	}
	w.close = w.close || w.conn.server.closing.Load()
	return w.lead()
}

// count makes the output before the first flush part of the first piece, up to
// the announced length.
func (w *reply) count() {
	switch n := int64(w.body.Len()); {
	case w.framing == bodiless:
		w.body.Reset()
	case w.framing == counted:
		w.body.Truncate(int(min(n, w.left)))
		w.left -= int64(w.body.Len())
	}
}

// stream is Write after the first flush.
func (w *reply) stream(b []byte) (n int, err error) {
	switch {
	case w.err != nil:
		return 0, w.err
	case w.framing == bodiless:
		return len(b), nil
	case w.framing == counted && int64(len(b)) > w.left:
		b, err = b[:w.left], http.ErrContentLength
	}
	for n < len(b) {
		next := b[n:min(len(b), n+mostPiece-w.body.Len())]
		n += len(next)
		if w.body.Write(next); w.framing == counted {
			w.left -= int64(len(next))
		}
		if w.body.Len() < mostPiece {
			continue
		}
		if err := w.piece(false); err != nil {
			return n, err
		}
	}
	return n, err
}

// finish sends the rest and marks the end of the reply.
func (w *reply) finish() error {
	if err := w.piece(true); err != nil {
		return err
	}
	if w.framing == counted && w.left > 0 {
		return w.fail(errShort)
	}
	return nil
}

// piece sends the pending output, with the head if that has not been sent.
func (w *reply) piece(end bool) error {
	if w.err != nil {
		return w.err
	}
	w.frame(end)
	if err := w.conn.writeBoth(&w.head, w.body.Bytes()); err != nil {
		return w.fail(err)
	}
	w.reset()
	return nil
}

// frame makes the pending output a piece of the body.
func (w *reply) frame(end bool) {
	if w.framing != chunked {
		return
	}
	if n := w.body.Len(); n > 0 {
		w.head.Write(strconv.AppendInt(w.head.AvailableBuffer(), int64(n), 16))
		w.head.WriteString("\r\n")
		w.body.WriteString("\r\n")
	}
	if end {
		w.body.WriteString("0\r\n\r\n")
	}
}

// reset drops the output that was sent.
func (w *reply) reset() {
	w.head.Reset()
	w.body.Reset()
	if w.body.Cap() > len(buffer{}) || w.head.Cap() > len(buffer{}) {
		w.body, w.head = bytes.Buffer{}, bytes.Buffer{} // the next piece may be far off
	}
}

// fail ends a reply that has begun, and closes the connection so that the
// caller does not mistake it for a complete reply.
func (w *reply) fail(err error) error {
	w.err = err
	w.conn.abort(nil)
	return err
}
