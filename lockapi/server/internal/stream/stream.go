package stream

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/codec"
)

// A stream reads up to streamBatch events at a time with up to streamBytes of
// content, or one event with more. Every bookmarkEvery it reports its position.
const (
	streamBatch   = 64
	streamBytes   = 64 << 10
	bookmarkEvery = lockapi.MaxBookmarkMS * time.Millisecond * 4 / 5
)

// fewBytes is small enough not to be counted: a stream takes as much anyway.
const fewBytes = 16 << 10

// roomRecheck is how often a stream checks for room.
const roomRecheck = 20 * time.Millisecond

// errEnds ends a stream regularly.
var errEnds = errors.New("the stream is over")

// Reply is the reply of a stream.
type Reply interface {
	http.ResponseWriter
	http.Flusher
}

// unblocked is a reply that can send without waiting; see package wire.
type unblocked interface {
	FlushNow() (rest bool, err error)
}

// stream is a watch that sends server-sent events.
type stream struct {
	*Watch
	ctx  context.Context
	out  Reply
	now  unblocked // nil if out can only be flushed
	cell string    // the cell's id
}

// Stream sends server-sent events to out after the headers. It ends
// when ctx ends, when the caller is too far behind or does not read, and when
// this replica stops or must no longer answer from its own state. The caller
// continues with Last-Event-ID, at any replica. With fresh the stream begins
// with its starting revision, which the caller does not know yet. A stream
// refused as compacted ends at once. The error is the reason for the end; nil if
// the replica stops or the caller has disconnected.
func (w *Watch) Stream(ctx context.Context, out Reply, cell string, fresh bool, refused error) error {
	s := &stream{Watch: w, ctx: ctx, out: out, cell: cell}
	if wrapped, ok := out.(interface{ Unwrap() http.ResponseWriter }); ok {
		s.now, _ = wrapped.Unwrap().(unblocked)
	}
	if refused != nil {
		return s.end(refused)
	}
	if fresh {
		if err := s.bookmark(); err != nil {
			return err
		}
	}
	tick := time.NewTicker(bookmarkEvery)
	defer tick.Stop()
	stopping := w.ends()
	for {
		if err := s.deliver(); err != nil {
			return err
		}
		select {
		case <-w.Events.Ready():
		case <-tick.C:
			if err := s.deliver(); err != nil {
				return err
			}
			if err := s.bookmark(); err != nil {
				return err
			}
		case <-stopping:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// deliver sends the new events. It keeps its turn only while it need not wait
// for the caller. An error ends the stream.
func (s *stream) deliver() error {
	var (
		out  *codec.Body
		rest bool
		err  error
	)
	s.turns.run(func() (busy bool) {
		out, busy, err = s.read()
		if n := out.Len(); n > 0 && n <= fewBytes && s.now != nil {
			rest = s.sendNow(out.Bytes())
			out.Reset()
		}
		return busy
	})
	defer out.Release()
	switch {
	case err != nil:
		return s.end(err)
	case rest:
		s.out.Flush()
	case out.Len() > 0:
		return s.push(&out.Buffer)
	}
	return s.ctx.Err()
}

// read returns the new events, encoded. busy reports whether the cell has
// changed further since the last of them. The caller releases the buffer.
func (s *stream) read() (out *codec.Body, busy bool, err error) {
	out = codec.NewBody()
	found, upTo, err := s.Events.Read(s.After, streamBatch, streamBytes)
	if err != nil {
		return out, false, err
	}
	for i := range found {
		if err := s.encoded.write(&out.Buffer, &found[i]); err != nil {
			return out, false, err
		}
		busy = found[i].Revision < upTo
	}
	s.After = upTo
	s.Sent(float64(len(found)))
	return out, busy, nil
}

// sendNow sends what the connection accepts without waiting, and reports
// whether there is a rest to flush.
func (s *stream) sendNow(b []byte) (rest bool) {
	if _, err := s.out.Write(b); err != nil {
		return true // flushing returns the error again
	}
	rest, _ = s.now.FlushNow() // an error ends the context
	return rest
}

// end sends the last event of a stream, if it has one, and returns the error
// that ends the stream.
func (s *stream) end(err error) error {
	if e, ok := errors.AsType[*lockapi.Error](err); ok {
		switch e.Code {
		case lockapi.CodeUnauthenticated, lockapi.CodePermissionDenied:
			_ = s.event(s.After, lockapi.StreamDenied, struct{}{})
		case lockapi.CodeCompacted:
			_ = s.event(e.Revision, lockapi.StreamCompacted, e.Compacted)
		}
	}
	return err
}

// bookmark reports to the caller up to which revision the stream is complete.
func (s *stream) bookmark() error {
	return s.event(s.After, lockapi.StreamBookmark, lockapi.Bookmark{Revision: s.After, Cell: s.cell})
}

func (s *stream) event(id uint64, name string, data any) error {
	var out bytes.Buffer
	if err := WriteEvent(&out, id, name, data); err != nil {
		return err
	}
	return s.push(&out)
}

// push sends the output, as fast as the connection accepts it. Its memory is
// bounded for all streams together: if many callers are slow to read, the ones
// that have taken longest are cut off for the others.
func (s *stream) push(out *bytes.Buffer) error {
	if n := out.Len(); n > fewBytes {
		leave, ok := s.bytes.reserve(s.Conn, n)
		for ; !ok; leave, ok = s.bytes.reserve(s.Conn, n) {
			select {
			case <-time.After(roomRecheck):
			case <-s.Stopping:
				return errEnds
			case <-s.ctx.Done():
				return errEnds
			}
		}
		defer leave()
	}
	if _, err := s.out.Write(out.Bytes()); err != nil {
		return err
	}
	s.out.Flush()
	return s.ctx.Err()
}

// WriteEvent writes one event of a stream. The encoded JSON has a line end only
// at its end, so neither a path nor a content can end the event.
func WriteEvent(out *bytes.Buffer, id uint64, name string, data any) error {
	b, err := codec.Encode(data)
	if err != nil {
		return err
	}
	defer b.Release()
	out.WriteString("id: ")
	out.WriteString(strconv.FormatUint(id, 10))
	out.WriteString("\nevent: ")
	out.WriteString(name)
	out.WriteString("\ndata: ")
	out.Write(b.Bytes())
	out.WriteByte('\n')
	return nil
}
