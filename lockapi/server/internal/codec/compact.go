package codec

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// mostWaste is how many useless bytes of its body a call may keep. Callers may
// send many of them and let the call wait.
const mostWaste = 1 << 10

// Compact returns a decoded body without the space between its tokens, if
// there may be much. A call keeps its body in case it has to be forwarded. The
// body itself does not change: a parked call is decoded from it again.
func Compact(body []byte) []byte {
	if cap(body) <= mostWaste {
		return body
	}
	v := jsontext.Value(slices.Clone(body))
	if v.Compact() != nil {
		return body
	}
	return slices.Clone(v)
}
