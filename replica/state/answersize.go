package state

import "unicode/utf8"

// maxAnswer bounds an answer that is remembered, in bytes.
const maxAnswer = 64 << 10

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
	n := 320 + textSize(f.Path)
	if utf8.Valid(f.Content) {
		return n + textSize(f.Content)
	}
	return n + (len(f.Content)+2)/3*4
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
