package server

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/stoutlock/stout/lockapi"
)

// buffer holds a reply while it is built.
type buffer struct{ bytes.Buffer }

// maxPooledBytes is the largest buffer that returns to the pool, so that one
// long list does not occupy memory forever.
const maxPooledBytes = 256 << 10

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) release() {
	if b.Cap() <= maxPooledBytes {
		b.Reset()
		buffers.Put(b)
	}
}

// encode writes v as JSON. Nil lists and maps become [] and {}; < > & are not
// escaped. omitempty has its meaning in encoding/json, for which the types of
// lockapi are written. A line end follows, for reading in a terminal. The
// caller releases the buffer.
func encode(v any, opts ...json.Options) (*buffer, error) {
	b := buffers.Get().(*buffer)
	if err := json.MarshalWrite(b, v, append(opts, jsonv1.OmitEmptyWithLegacySemantics(true))...); err != nil {
		b.release()
		return nil, err
	}
	b.WriteByte('\n')
	return b, nil
}

// largeContent is the number of content bytes above which a reply needs a turn
// to be encoded.
const largeContent = 64 << 10

// contentBytes returns the number of content bytes in a reply.
func contentBytes(body any) (n int) {
	switch b := body.(type) {
	case lockapi.File:
		n = contentOf(&b)
	case lockapi.TransactionResult:
		for i := range b.Results {
			n += contentOf(b.Results[i].File)
		}
	case lockapi.EventList:
		for i := range b.Events {
			n += contentOf(b.Events[i].File)
		}
	}
	return n
}

func contentOf(f *lockapi.File) int {
	switch {
	case f == nil:
		return 0
	case f.Content != nil:
		return len(*f.Content)
	}
	return len(f.ContentBase64)
}

// encodeProblem encodes an error's document. Its detail may quote arbitrary
// input of the caller.
func encodeProblem(p *lockapi.Problem) (*buffer, error) {
	return encode(p, jsontext.AllowInvalidUTF8(true))
}
