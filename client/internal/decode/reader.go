package decode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// reader reads JSON as replicas write it: without spaces, with small whole
// numbers. Every method returns false if it finds another form, and cannot
// continue after that. Its results equal the results of encoding/json
// (FuzzDecode).
type reader struct{ rest []byte }

// is consumes c if it is the next byte.
func (r *reader) is(c byte) bool {
	if len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// object calls field with the name of each field, to read its value.
func (r *reader) object(field func(name []byte) bool) bool {
	if !r.is('{') {
		return false
	}
	if r.is('}') {
		return true
	}
	for {
		name, ok := r.quoted()
		if !ok || !r.is(':') || !field(name[1:len(name)-1]) {
			return false
		}
		if !r.is(',') {
			return r.is('}')
		}
	}
}

// array calls element to read each element.
func (r *reader) array(element func() bool) bool {
	if !r.is('[') {
		return false
	}
	if r.is(']') {
		return true
	}
	for element() {
		if !r.is(',') {
			return r.is(']')
		}
	}
	return false
}

// quoted reads a string, and returns it with its quotes and escapes.
func (r *reader) quoted() ([]byte, bool) {
	if len(r.rest) == 0 || r.rest[0] != '"' {
		return nil, false
	}
	for i := 1; i < len(r.rest); i++ {
		switch r.rest[i] {
		case '\\':
			i++
		case '"':
			text := r.rest[:i+1]
			r.rest = r.rest[i+1:]
			return text, true
		}
	}
	return nil, false
}

func (r *reader) text(to *string) bool {
	quoted, ok := r.quoted()
	if !ok {
		return false
	}
	text := quoted[1 : len(quoted)-1]
	escaped := false
	for i, c := range text {
		if c < ' ' || c > '~' || c == '\\' && !bytes.HasPrefix(text[i:], []byte(`\"`)) {
			return json.Unmarshal(quoted, to) == nil
		}
		escaped = escaped || c == '\\'
	}
	*to = string(text)
	if escaped {
		*to = strings.ReplaceAll(*to, `\"`, `"`)
	}
	return true
}

// bytes reads Base64 without escapes.
func (r *reader) bytes(to *[]byte) bool {
	quoted, ok := r.quoted()
	if !ok || bytes.ContainsFunc(quoted, func(c rune) bool { return c < ' ' || c == '\\' }) {
		return false
	}
	var err error
	*to, err = base64.StdEncoding.DecodeString(string(quoted[1 : len(quoted)-1]))
	return err == nil
}

// texts reads an object of strings.
func (r *reader) texts(to *map[string]string) bool {
	if *to != nil || !r.is('{') { // a second value is refused
		return false
	}
	*to = make(map[string]string)
	if r.is('}') {
		return true
	}
	for {
		var name, value string
		if !r.text(&name) || !r.is(':') || !r.text(&value) {
			return false
		}
		(*to)[name] = value
		if !r.is(',') {
			return r.is('}')
		}
	}
}

func (r *reader) time(to *time.Time) bool {
	quoted, ok := r.quoted()
	return ok && to.UnmarshalJSON(quoted) == nil
}

func (r *reader) boolean(to *bool) bool {
	var ok bool
	if r.rest, ok = bytes.CutPrefix(r.rest, []byte("true")); ok {
		*to = true
		return true
	}
	r.rest, ok = bytes.CutPrefix(r.rest, []byte("false"))
	*to = false
	return ok
}

// number reads a whole number that is not negative and fits in 18 digits.
func number[N int | int64 | uint64](r *reader, to *N) bool {
	const most = len("999999999999999999")
	n, i := int64(0), 0
	for i < len(r.rest) && r.rest[i] >= '0' && r.rest[i] <= '9' && i <= most {
		n = 10*n + int64(r.rest[i]-'0')
		i++
	}
	if i == 0 || i > most || r.rest[0] == '0' && i > 1 {
		return false
	}
	*to, r.rest = N(n), r.rest[i:]
	return int64(*to) == n // an int may have 32 bits
}
