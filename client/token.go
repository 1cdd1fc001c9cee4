package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// WithToken sets the function that returns the bearer token of each attempt:
// one of the cell's access tokens, or a JWT. It is called for each attempt, by
// many goroutines, so a replaced token takes effect at once. It should cache a
// token that is slow to obtain. If a token is refused, the function is called
// once more, and its token is sent if it differs. If the function fails, the
// attempt has no token and counts as not sent. The token is sent to every URL
// that the client calls, including http URLs.
func WithToken(token func(ctx context.Context) (string, error)) Option {
	return func(c *Config) { c.Token = token }
}

var errNoToken = errors.New("no token to send")

// authorization returns the header with the token of an attempt; empty if no
// function supplies tokens. The error is an errNoToken.
func (c *caller) authorization(ctx context.Context) ([]field, error) {
	if c.token == nil {
		return nil, nil
	}
	token, err := c.token(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoToken, err)
	case token == "":
		return nil, fmt.Errorf("%w: it is empty", errNoToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, fmt.Errorf("%w: it has a space, a control character or one outside ASCII", errNoToken)
	}
	return []field{{"Authorization", "Bearer " + token}}, nil
}

// with returns the call's own header fields and more.
func (q *call) with(more []field) []field {
	if len(more) == 0 {
		return q.fields
	}
	return slices.Concat(q.fields, more)
}
