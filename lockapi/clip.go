package lockapi

import "unicode/utf8"

// Bounds of what an error carries, whoever asked for what: an answer, a log
// line and a caller's screen have room for that much. MaxDetailBytes holds a
// message about the longest path, with all of its characters escaped.
const (
	MaxDetailBytes = 4 << 10
	maxClipBytes   = 80
)

// Clip bounds what a message quotes of somebody's input to 80 bytes, cut
// between characters; "…" stands for the rest.
func Clip(s string) string { return cut(s, maxClipBytes) }

// cut keeps at most this many bytes of s, and no half character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
