package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// readBody reads the whole body within BodyTimeout. A body that is not read to
// its end makes this the connection's last request.
func (x *exchange) readBody() ([]byte, error) {
	r := x.c.Request
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	// A server-wide ReadTimeout would end calls that wait. Writers without
	// deadlines (those of tests) are read without one.
	control := http.NewResponseController(x.c.Writer)
	_ = control.SetReadDeadline(time.Now().Add(x.opts.BodyTimeout))
	body, err := readAtMost(r, lockapi.MaxBodyBytes)
	if err != nil {
		x.c.Writer.Header().Set("Connection", "close")
		return nil, x.bodyError(err)
	}
	_ = control.SetReadDeadline(time.Time{})
	return body, nil
}

// errTooLarge says that a body is longer than it may be.
var errTooLarge = errors.New("body too large")

func readAtMost(r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, errTooLarge
	}
	if n := r.ContentLength; n >= 0 {
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, err
		}
		// net/http watches for the end of the connection once it saw the body's.
		_, err := r.Body.Read(make([]byte, 1))
		if err != nil && err != io.EOF {
			return nil, err
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = errTooLarge
	}
	return body, err
}

func (x *exchange) bodyError(err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return lockapi.Errorf(lockapi.CodeTooLarge, "the body has more than the %d bytes that are allowed", lockapi.MaxBodyBytes)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return lockapi.Invalid("body", "the body did not arrive within %v", x.opts.BodyTimeout)
	default:
		return lockapi.Invalid("body", "the body cannot be read: %v", err)
	}
}
