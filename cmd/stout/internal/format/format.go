// Package format formats figures and foreign text for all output of stout.
package format

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/stoutlock/stout/internal/safetext"
)

// Clean makes foreign text safe to print (see package safetext). Empty text
// becomes a dash, so that columns stay aligned.
func Clean(s string) string {
	if s == "" {
		return "-"
	}
	return safetext.Name(s)
}

// Truncate cuts text to at most width columns, the last of them an ellipsis.
func Truncate(text string, width int) string { return ansi.Truncate(text, width, "…") }

// Shorten cuts text to at most width columns, with an ellipsis in its middle:
// paths and names differ at their ends.
func Shorten(text string, width int) string {
	n := ansi.StringWidth(text)
	if n <= width {
		return text
	}
	if width < 8 {
		return Truncate(text, max(0, width))
	}
	head := (width - 1) / 3
	tail := ansi.TruncateLeft(text, n-(width-1-head), "")
	return ansi.Truncate(text, head, "") + "…" + ansi.Truncate(tail, width-1-head, "")
}

// Human formats a duration with two or three digits: 120ms, 1.2s, 12s, 3m20s,
// 3h05m, 2d3h.
func Human(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Human(-max(d, -math.MaxInt64)) // the lowest value has no negation
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

// Bytes formats a number of bytes for people.
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

// Plural returns "1 lock" or "2 locks".
func Plural(n int, noun string) string { return PluralOf(n, noun, noun+"s") }

// PluralOf is Plural for irregular nouns.
func PluralOf[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// MS formats milliseconds of the API for people.
func MS(ms int64) string { return Human(time.Duration(ms) * time.Millisecond) }

// Clock formats a time, with the date unless that is the date of now.
func Clock(t, now time.Time) string {
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("15:04:05")
}

// Since returns the time since t, at least zero: the cell's clock may be ahead.
func Since(t time.Time) string { return Human(max(0, time.Since(t))) }
