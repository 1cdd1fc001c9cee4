package lockapi

import "unicode/utf8"

// Bounds of an error, so that it fits into a reply, a log line and a screen.
// MaxDetailBytes fits a message about the longest path with every character
// escaped.
const (
	MaxDetailBytes = 4 << 10
	maxClipBytes   = 80
)

// Clip shortens input that a message quotes to 80 bytes, cut between
// characters. "…" marks the cut.
func Clip(s string) string { return cut(s, maxClipBytes) }

// cut keeps at most this many bytes of s, in whole characters.
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
