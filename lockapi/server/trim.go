package server

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// mostWaste is how much a call may keep of its body, and of its headers,
// besides what is of use: callers may send much that says nothing, and have it
// wait.
const mostWaste = 1 << 10

// trimBody is a body that was decoded without the space between its tokens,
// where there may be much of it: a call keeps its body in case it has to be
// forwarded.
func trimBody(body []byte) []byte {
	if cap(body) <= mostWaste {
		return body
	}
	v := jsontext.Value(body)
	if v.Compact() != nil {
		return body
	}
	return slices.Clone(v)
}

// trimHeaders lets go of the headers, where they take much: nobody reads those
// of a call any more that has begun to wait.
func (x *exchange) trimHeaders() {
	h := x.c.Request.Header
	size := 0
	for name, values := range h {
		size += len(name)
		for _, v := range values {
			size += len(v)
		}
	}
	if size > mostWaste {
		credential := h[headerAuthorization]
		clear(h)
		if credential != nil {
			h[headerAuthorization] = credential
		}
	}
}
