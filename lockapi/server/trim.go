package server

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// mostWaste is how many useless bytes of its body and its headers a call may
// keep. Callers may send many of them and let the call wait.
const mostWaste = 1 << 10

// trimBody returns a decoded body without the space between its tokens, if
// there may be much. A call keeps its body in case it has to be forwarded.
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

// trimHeaders drops the headers if they are large. A call that has begun to
// wait no longer needs them, except the credential.
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
