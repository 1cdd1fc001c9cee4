package call

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
func (c *Caller) authorization(ctx context.Context) ([][2]string, error) {
	if c.Token == nil {
		return nil, nil
	}
	token, err := c.Token(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoToken, err)
	case token == "":
		return nil, fmt.Errorf("%w: it is empty", errNoToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, fmt.Errorf("%w: it has a space, a control character or one outside ASCII", errNoToken)
	}
	return [][2]string{{"Authorization", "Bearer " + token}}, nil
}

// with returns the call's own header fields and more.
func (q *Call) with(more [][2]string) [][2]string {
	if len(more) == 0 {
		return q.Fields
	}
	return slices.Concat(q.Fields, more)
}
