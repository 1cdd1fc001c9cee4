package consul

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// Keys may have any bytes, empty segments and a slash at the end; paths may
// not. A key is the path without its first slash, except for these segments:
//
//   - an empty one is "~" in the path
//   - "." and ".." begin with "~2e"
//   - "~", control characters and bytes that are no UTF-8 are "~" and two
//     hexadecimal digits
//
// So each key has one path, and a path that no key has is not shown. The keys
// with a prefix are the paths with one (pathPrefix).

const hexDigits = "0123456789abcdef"

// pathOf returns the path of a key. The error is invalid_argument if that path
// would be too long.
func pathOf(key string) (string, error) {
	path := "/" + key
	if !isPlain(key) {
		var b strings.Builder
		for segment := range strings.SplitSeq(key, "/") {
			b.WriteByte('/')
			escape(&b, segment, true)
		}
		path = b.String()
	}
	if err := lockapi.ValidatePath(path); err != nil {
		return "", lockapi.Invalid("key", "the key %q cannot be a path of Stout: %v", lockapi.Clip(key), err)
	}
	return path, nil
}

// isPlain reports whether a key is not changed by escape: it has printable
// ASCII only, and no segment that needs more.
func isPlain(key string) bool {
	start := true
	for i := range len(key) {
		switch c := key[i]; {
		case c == '/' && start, c == '~', c == '.' && start, c < ' ', c >= 0x7f:
			return false
		default:
			start = c == '/'
		}
	}
	return !start
}

// escape writes a segment; whole reports that nothing follows in it.
func escape(b *strings.Builder, segment string, whole bool) {
	switch {
	case segment == "" && whole:
		b.WriteByte('~')
		return
	case whole && (segment == "." || segment == ".."):
		b.WriteString("~2e" + segment[1:])
		return
	}
	for i, size := 0, 0; i < len(segment); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(segment[i:])
		if r != '~' && !unicode.IsControl(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(segment[i : i+size])
			continue
		}
		for _, c := range []byte(segment[i : i+size]) {
			b.Write([]byte{'~', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
}

// keyOf returns the key of a path, or false if no key has the path. The empty key
// does not exist.
func keyOf(path string) (string, bool) {
	key := strings.TrimPrefix(path, "/")
	if !strings.Contains(key, "~") {
		return key, true
	}
	var b strings.Builder
	for i, segment := range strings.Split(key, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		if segment == "~" {
			continue
		}
		for j := 0; j < len(segment); j++ {
			if segment[j] != '~' {
				b.WriteByte(segment[j])
				continue
			}
			if j+2 >= len(segment) {
				return "", false
			}
			high, low := strings.IndexByte(hexDigits, segment[j+1]), strings.IndexByte(hexDigits, segment[j+2])
			if high < 0 || low < 0 {
				return "", false
			}
			b.WriteByte(byte(high<<4 | low))
			j += 2
		}
	}
	key = b.String()
	again, err := pathOf(key)
	return key, err == nil && again == path && key != ""
}

// pathPrefix returns the prefix of the paths of the keys with a prefix. A
// prefix that ends within a segment "." or "..", or within a character, has
// none.
func pathPrefix(prefix string) (string, error) {
	var b strings.Builder
	segments := strings.Split(prefix, "/")
	for i, segment := range segments {
		b.WriteByte('/')
		last := i == len(segments)-1
		if last && (segment == "." || segment == ".." || !utf8.ValidString(segment)) {
			return "", lockapi.Invalid("key", "the door finds no keys with the prefix %q: a prefix must not end in a segment \".\" or \"..\", or within a character", lockapi.Clip(prefix))
		}
		escape(&b, segment, !last)
	}
	if b.Len() > lockapi.MaxPathBytes {
		return "", lockapi.Invalid("key", "the prefix %q is too long: its path would have %d bytes, of at most %d", lockapi.Clip(prefix), b.Len(), lockapi.MaxPathBytes)
	}
	return b.String(), nil
}
