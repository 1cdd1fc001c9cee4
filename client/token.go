package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
