package cli

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/safetext"
)

// Short names for package format.
func clean(s string) string                            { return format.Clean(s) }
func truncate(text string, width int) string           { return format.Truncate(text, width) }
func human(d time.Duration) string                     { return format.Human(d) }
func plural(n int, noun string) string                 { return format.Plural(n, noun) }
func byteSize(n int64) string                          { return format.Bytes(n) }
func pluralOf[N int | uint64](n N, a, b string) string { return format.PluralOf(n, a, b) }

// safe removes control characters from a sentence with foreign words.
func safe(s string) string { return safetext.Line(s) }

// wrap breaks text after a head into lines of at most width characters. Lines
// after the first are indented; a longer word has a line of its own.
func wrap(head, text string, width, indent int) []string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return []string{head}
	}
	var lines []string
	line := head + words[0]
	for _, word := range words[1:] {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		lines = append(lines, line)
		line = strings.Repeat(" ", indent) + word
	}
	return append(lines, line)
}

// millis formats milliseconds of the API for people.
func millis(ms int64) string { return format.Millis(ms) }

// since returns the time since t, at least zero: the cell's clock may be ahead.
func since(t time.Time) string { return human(max(0, time.Since(t))) }
