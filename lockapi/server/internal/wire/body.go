package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// body reads the body of r, up to most bytes, within BodyTimeout. It returns a
// *http.MaxBytesError if the body is longer, and does not read the rest.
func (c *conn) body(r *http.Request, most int64) ([]byte, error) {
	switch n := r.ContentLength; {
	case n == 0:
		return nil, nil
	case n > most:
		return nil, &http.MaxBytesError{Limit: most}
	case n >= 0 && n <= int64(len(c.in)):
		text := bytes.Clone(c.in[:n])
		c.consume(int(n))
		return text, nil
	default:
		return c.restOfBody(n, most)
	}
}

// restOfBody reads a body of n bytes that has not arrived completely, or a
// chunked one if n is negative.
func (c *conn) restOfBody(n, most int64) (text []byte, err error) {
	rest := &rest{conn: c, until: time.Now().Add(c.server.BodyTimeout)}
	if n < 0 {
		text, err = rest.chunks(most)
	} else if text, err = rest.gather(rest, n); int64(len(text)) == n {
		err = nil
	}
	if c.arrived() {
		return nil, ErrCrowded
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return text, err
}

// chunks reads a chunked body and drops its trailers.
func (r *rest) chunks(most int64) ([]byte, error) {
	from := bufio.NewReader(r)
	text, err := r.gather(httputil.NewChunkedReader(from), most+1)
	switch {
	case int64(len(text)) > most:
		return nil, &http.MaxBytesError{Limit: most}
	case err != io.EOF:
		return nil, err
	}
	if err := dropTrailers(from, r.server.MaxHeaderBytes); err != nil {
		return nil, err
	}
	if ahead, _ := from.Peek(from.Buffered()); len(ahead) > 0 {
		ahead = append(bytes.Clone(ahead), r.in...)
		r.release()
		r.in = ahead
	}
	return text, nil
}

var errTrailer = errors.New("the body does not end with an empty line or with trailers")

// dropTrailers reads what follows the last chunk, up to the empty line. It is
// as strict as net/http. If two servers disagreed about the end of a body,
// requests could be smuggled.
func dropTrailers(from *bufio.Reader, most int) error {
	for {
		line, err := from.ReadSlice('\n')
		if err != nil {
			return err
		}
		if most -= len(line); most < 0 {
			return errTrailer
		}
		trailer, ok := strings.CutSuffix(string(line), "\r\n")
		if ok && trailer == "" {
			return nil
		}
		if _, _, is := field(trailer); !ok || !is {
			return errTrailer
		}
	}
}

// rest reads a request's body: first the bytes read after the head, then the
// connection.
type rest struct {
	*conn
	until time.Time
	size  int // memory in use so far
}

func (r *rest) Read(p []byte) (int, error) {
	if len(r.in) > 0 {
		n := copy(p, r.in)
		r.consume(n)
		return n, nil
	}
	if err := r.arm(r.until); err != nil {
		return 0, err
	}
	r.holds(r.size, false)
	return r.net.Read(p)
}

// gather reads most bytes, or fewer with an error. It allocates memory as the
// bytes arrive, since a large length is easily announced.
func (r *rest) gather(from io.Reader, most int64) (text []byte, err error) {
	text = make([]byte, 0, min(most, int64(len(buffer{}))))
	for err == nil && int64(len(text)) < most {
		if len(text) == cap(text) {
			text = append(make([]byte, 0, min(most, 4*int64(cap(text)))), text...)
		}
		r.size = cap(text) + len(buffer{})
		var n int
		n, err = from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
	}
	return text, err
}

// Body is a body that has arrived completely.
type Body struct {
	text []byte
	read int
}

// Detach returns the whole body. The handler may keep it, but must not change it:
// a parked call is served from it again.
func (b *Body) Detach() []byte {
	text := b.text[b.read:]
	b.text, b.read = nil, 0
	return text
}

func (b *Body) Read(p []byte) (int, error) {
	if b.read == len(b.text) {
		return 0, io.EOF
	}
	n := copy(p, b.text[b.read:])
	b.read += n
	return n, nil
}

func (b *Body) Close() error { return nil }

// cutBody is a body that did not arrive completely.
type cutBody struct{ why error }

func (b cutBody) Read([]byte) (int, error) { return 0, b.why }
func (b cutBody) Close() error             { return nil }
