package server

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/stoutlock/stout/lockapi"
)

// buffer is a reply being put together.
type buffer struct{ bytes.Buffer }

// maxPooledBytes keeps the buffer of one long list from being kept for ever.
const maxPooledBytes = 256 << 10

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) release() {
	if b.Cap() <= maxPooledBytes {
		b.Reset()
		buffers.Put(b)
	}
}

// encode writes v as JSON. Lists and maps that are nil are [] and {}; < > &
// stay as they are; omitempty means what it means in encoding/json, against
// which the types of lockapi are written. A line end follows, for those who
// read it in a terminal. The caller releases the buffer.
func encode(v any, opts ...json.Options) (*buffer, error) {
	b := buffers.Get().(*buffer)
	if err := json.MarshalWrite(b, v, append(opts, jsonv1.OmitEmptyWithLegacySemantics(true))...); err != nil {
		b.release()
		return nil, err
	}
	b.WriteByte('\n')
	return b, nil
}

// largeContent is the bytes of contents above which a reply is encoded in turn.
const largeContent = 64 << 10

// contentBytes returns the bytes of files' contents in a reply.
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

// encodeProblem is encode for an error's document. What its detail quotes of
// the caller's input may be anything.
func encodeProblem(p *lockapi.Problem) (*buffer, error) {
	return encode(p, jsontext.AllowInvalidUTF8(true))
}
