package stream

import (
	"bytes"
	"sync/atomic"

	"github.com/stoutlock/stout/lockapi"
)

// keptEncodedBytes bounds each event in encodedEvents.
const keptEncodedBytes = 4 << 10

// encodedEvents caches the latest events without content in their encoded form,
// since all streams send the same events at about the same time. It is safe for
// concurrent use.
type encodedEvents [256]atomic.Pointer[encodedEvent]

type encodedEvent struct {
	revision uint64
	text     []byte
}

// write writes an event of the cell, like WriteEvent.
func (t *encodedEvents) write(out *bytes.Buffer, e *lockapi.CellEvent) error {
	if f := e.File; f != nil && (f.Content != nil || f.ContentBase64 != nil) {
		return WriteEvent(out, e.Revision, string(e.Type), e)
	}
	kept := &t[e.Revision%uint64(len(t))]
	if k := kept.Load(); k != nil && k.revision == e.Revision {
		out.Write(k.text)
		return nil
	}
	from := out.Len()
	if err := WriteEvent(out, e.Revision, string(e.Type), e); err != nil {
		return err
	}
	if out.Len()-from <= keptEncodedBytes {
		kept.Store(&encodedEvent{e.Revision, bytes.Clone(out.Bytes()[from:])})
	}
	return nil
}
