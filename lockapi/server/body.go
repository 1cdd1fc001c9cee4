package server

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// readBody is the whole body. One that did not arrive whole makes this the
// connection's last request.
func (x *exchange) readBody() ([]byte, error) {
	r := x.c.Request
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if whole, ok := r.Body.(*wire.Body); ok {
		return whole.Take(), nil
	}
	if x.peer {
		release, err := x.holdBody()
		if err != nil {
			return nil, err
		}
		defer release()
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, lockapi.MaxBodyBytes))
	if err != nil {
		if !x.peer { // which has other calls on its connection
			x.c.Writer.Header().Set("Connection", "close")
		}
		return nil, x.bodyError(err)
	}
	return body, nil
}

func (x *exchange) bodyError(err error) error {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return lockapi.Errorf(lockapi.CodeTooLarge, "the body has more than the %d bytes that are allowed", lockapi.MaxBodyBytes)
	case errors.Is(err, wire.ErrCrowded):
		return errCrowded()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return lockapi.Invalid("body", "the body did not arrive within %v", x.opts.BodyTimeout)
	default:
		return lockapi.Invalid("body", "the body cannot be read: %v", err)
	}
}

// errCrowded is the answer to a request that was cut off when it had arrived in part.
func errCrowded() *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeTooMany, "this replica keeps %d MiB of requests that have arrived in part, and this was the oldest of them; "+
		"send it again, whole and at once", maxHalfBytes>>20)
}
