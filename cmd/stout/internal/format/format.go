// Package format writes figures and foreign text the way all output of stout
// has them.
package format

import (
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"

	"github.com/stoutlock/stout/internal/safetext"
)

// Clean makes foreign text safe to print (see package safetext). Empty text is a
// dash, so that columns stay whole.
func Clean(s string) string {
	if s == "" {
		return "-"
	}
	return safetext.Name(s)
}

// Truncate cuts text to at most width characters, the last of them an ellipsis.
func Truncate(text string, width int) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	for lipgloss.Width(text) > width-1 {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return text + "…"
}

// Human writes a duration as people say it, to two or three digits: 120ms,
// 1.2s, 12s, 3m20s, 3h05m, 2d3h.
func Human(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Human(-max(d, -math.MaxInt64)) // the least has no opposite
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Milliseconds()/100)/10, 'f', -1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// Bytes is a number of bytes as people read it.
func Bytes(n int64) string {
	if n < 1<<10 {
		return Plural(int(n), "byte")
	}
	size, unit := float64(n)/(1<<10), "KiB"
	for _, next := range []string{"MiB", "GiB"} {
		if size >= 1<<10 {
			size, unit = size/(1<<10), next
		}
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// Plural is "1 lock", "2 locks".
func Plural(n int, noun string) string { return PluralOf(n, noun, noun+"s") }

// PluralOf is Plural for words that do not just get an s.
func PluralOf[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
