package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// WithToken has each request carry a bearer token: one of the cell's access tokens,
// or a JWT.
// The function is asked for each attempt, by many goroutines, and should remember what
// it takes long to find; so a token that was exchanged is taken up at once. Where one is refused, the function
// is asked once more, and what it gives then is sent if it is another. An attempt
// without a token, since the function failed, counts as one that was not sent. A token
// is sent to every URL that the client calls, also where that is http.
func WithToken(token func(ctx context.Context) (string, error)) Option {
	return func(c *Config) { c.Token = token }
}

// authorization is the header of an attempt that carries a token; none where nobody
// gives one.
func (e *exchanger) authorization(ctx context.Context) ([]field, error) {
	if e.token == nil {
		return nil, nil
	}
	token, err := e.token(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("no token to send: %w", err)
	case token == "":
		return nil, errors.New("no token to send: it is empty")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("no token to send: it has characters that no token has")
	}
	return []field{{"Authorization", "Bearer " + token}}, nil
}

// with is the call's own fields and more.
func (q *call) with(more []field) []field {
	if len(more) == 0 {
		return q.fields
	}
	return slices.Concat(q.fields, more)
}
