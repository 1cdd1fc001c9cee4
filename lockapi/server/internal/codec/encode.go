package codec

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/stoutlock/stout/lockapi"
)

// Body holds a reply while it is built.
type Body struct{ bytes.Buffer }

// maxPooledBytes is the largest buffer that returns to the pool, so that one
// long list does not occupy memory forever.
const maxPooledBytes = 256 << 10

var buffers = sync.Pool{New: func() any { return new(Body) }}

// NewBody returns an empty buffer. The caller releases it.
func NewBody() *Body { return buffers.Get().(*Body) }

// Release returns the buffer for further use.
func (b *Body) Release() {
	if b.Cap() <= maxPooledBytes {
		b.Reset()
		buffers.Put(b)
	}
}

// Encode writes v as JSON. Nil lists and maps become [] and {}; < > & are not
// escaped. omitempty has its meaning in encoding/json, for which the types of
// lockapi are written. A line end follows, for reading in a terminal. The
// caller releases the buffer.
func Encode(v any, opts ...json.Options) (*Body, error) {
	b := NewBody()
	if err := json.MarshalWrite(b, v, append(opts, jsonv1.OmitEmptyWithLegacySemantics(true))...); err != nil {
		b.Release()
		return nil, err
	}
	b.WriteByte('\n')
	return b, nil
}

// EncodeProblem encodes an error's document. Its detail may quote arbitrary
// input of the caller.
func EncodeProblem(p *lockapi.Problem) (*Body, error) {
	return Encode(p, jsontext.AllowInvalidUTF8(true))
}
