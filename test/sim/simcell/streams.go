package simcell

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/stoutlock/stout/lockapi"
)

// reply receives a handler's answer: whole, or piece by piece as a stream is
// flushed.
type reply struct {
	*httptest.ResponseRecorder
	stream *stream
	began  chan struct{} // closed when the answer is a stream
	sent   int           // bytes of the stream
}

// Flush implements http.Flusher.
func (r *reply) Flush() {
	r.ResponseRecorder.Flush()
	if r.Header().Get("Content-Type") != lockapi.TypeEventStream {
		return
	}
	select {
	case <-r.began:
	default:
		close(r.began)
	}
	if fresh := r.Body.Bytes()[r.sent:]; len(fresh) > 0 {
		r.stream.send(string(fresh))
		r.sent += len(fresh)
	}
}

// begun returns the start of a streamed answer. The handler gets a signal when
// the receiver ends it.
func (r *reply) begun(leave context.CancelFunc) *http.Response {
	r.stream.leave = leave
	go r.stream.carry()
	return &http.Response{StatusCode: r.Code, Header: r.Header().Clone(), Body: r.stream}
}

// over ends the stream normally, if there is one.
func (r *reply) over() { r.stream.end() }

// stream is the body of an answer in pieces. They arrive in order, and stop
// once a piece is lost.
type stream struct {
	e      *endpoint
	q      *http.Request
	at     *process
	leave  context.CancelFunc
	pieces []string      // sent, and still on their way
	ended  bool          // no more pieces are sent
	came   string        // arrived, and not read yet
	err    error         // follows after that
	more   chan struct{} // closed and replaced when any of this changes
}

func (s *stream) wake() {
	close(s.more)
	s.more = make(chan struct{})
}

func (s *stream) send(piece string) {
	s.pieces = append(s.pieces, piece)
	s.wake()
}

func (s *stream) end() {
	s.ended = true
	s.wake()
}

// carry takes the pieces to the receiver.
func (s *stream) carry() {
	for {
		for len(s.pieces) == 0 && !s.ended && !s.at.dead() {
			select {
			case <-s.more:
			case <-s.at.gone.Done():
			case <-s.e.ctx.Done():
				return
			}
		}
		piece, last := "", len(s.pieces) == 0
		if !last {
			piece, s.pieces = s.pieces[0], s.pieces[1:]
		}
		if !s.e.w.net.conveys(s.at.m.id, s.e.from, s.e.w.now()) {
			return // the receiver gets no more pieces
		}
		s.came += piece
		switch {
		case s.at.dead() && last:
			s.err = errReset
		case last:
			s.err = io.EOF
		}
		s.wake()
		if last {
			return
		}
	}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for s.came == "" && s.err == nil {
		select {
		case <-s.more:
		case <-s.q.Context().Done():
			return 0, s.q.Context().Err()
		case <-s.e.ctx.Done():
			return 0, errReset
		}
	}
	if s.came == "" {
		return 0, s.err
	}
	n := copy(p, s.came)
	s.came = s.came[n:]
	return n, nil
}

// Close implements io.Closer. The sender learns of it unless the link is cut.
func (s *stream) Close() error {
	go func() {
		if s.e.w.net.conveys(s.e.from, s.at.m.id, s.e.w.now()) {
			s.leave()
		}
	}()
	return nil
}
