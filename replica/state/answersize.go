package state

import "unicode/utf8"

// maxAnswer bounds a remembered answer, in bytes.
const maxAnswer = 64 << 10

// MaxResults bounds the file contents in a transaction's results together, in
// bytes of JSON without the quotes. The state enforces it, so every transaction
// that takes effect has an answer that can be built.
const MaxResults = 1 << 20

// beyond returns the index of the first step at which the contents of the
// results exceed the bound, or -1. It examines the contents only if they could
// exceed it.
func (r *TransactionResult) beyond(most int) int {
	raw, size := 0, 0
	for _, s := range r.Steps {
		if s.File != nil {
			raw += len(s.File.Content)
		}
	}
	if raw*len(`\u0000`) <= most {
		return -1
	}
	for i, s := range r.Steps {
		if s.File != nil {
			size += encodedSize(s.File.Content)
		}
		if size > most {
			return i
		}
	}
	return -1
}

// size returns the size of the answer in JSON, or slightly more.
func (r *TransactionResult) size() int {
	n := 64 + r.Failure.size()
	for _, s := range r.Steps {
		switch {
		case s.File != nil:
			n += s.File.size()
		case s.Hold != nil:
			n += 224 + 2*textSize(s.Hold.Path) + textSize(s.Hold.Handle)
		default:
			n += 24
		}
	}
	return n
}

func (f *Failure) size() int {
	if f == nil {
		return 0
	}
	n := 512
	if f.Current != nil {
		n += f.Current.size()
	}
	if f.Lock != nil {
		for _, h := range f.Lock.Holders {
			n += 240 + textSize(h.Name) + textSize(h.Handle) + textSize(h.Principal)
		}
	}
	return n
}

func (f *File) size() int {
	return 320 + textSize(f.Path) + encodedSize(f.Content)
}

// encodedSize returns the size of a content in JSON: as text, or in base64.
func encodedSize(content []byte) int {
	if utf8.Valid(content) {
		return textSize(content)
	}
	return (len(content) + 2) / 3 * 4
}

// textSize returns the size of a text as a JSON string, without the quotes.
func textSize[T string | []byte](text T) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\', c == '\b', c == '\t', c == '\n', c == '\f', c == '\r':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}
