package state

import "unicode/utf8"

// maxAnswer bounds an answer that is remembered, in bytes.
const maxAnswer = 64 << 10

// MaxResults bounds the contents in a transaction's results together, in bytes of
// JSON without the quotes. It is decided by the state: where a transaction takes
// effect, its answer is one that may be built.
const MaxResults = 1 << 20

// beyond returns the number of the step with whose content the results pass the
// bound; -1 if they keep it. The contents are read only if they may pass it.
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

// size is what the answer takes in JSON, or a little more.
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

// encodedSize returns how long a content is in JSON: as text, or in base64.
func encodedSize(content []byte) int {
	if utf8.Valid(content) {
		return textSize(content)
	}
	return (len(content) + 2) / 3 * 4
}

// textSize is how long a text is as a string of JSON.
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
