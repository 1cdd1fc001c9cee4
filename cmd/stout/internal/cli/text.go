package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"

	"github.com/stoutlock/stout/internal/safetext"
)

// clean makes foreign text safe to print (see package safetext). Empty text is a
// dash, so that columns stay whole.
func clean(s string) string {
	if s == "" {
		return "-"
	}
	return safetext.Name(s)
}

// safe makes a sentence with foreign words in it safe to print.
func safe(s string) string { return safetext.Line(s) }

// wrap sets text behind a head, broken at blanks into lines of at most width
// characters where its words allow. Lines after the first are indented.
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

// truncate cuts text to at most width characters, the last of them an ellipsis.
func truncate(text string, width int) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	for lipgloss.Width(text) > width-1 {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return text + "…"
}

// human writes a duration as people say it, to two or three digits: 120ms,
// 1.2s, 12s, 3m20s, 3h05m, 2d3h.
func human(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + human(-max(d, -math.MaxInt64)) // the least has no opposite
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

// millis is human for the wire's milliseconds.
func millis(ms int64) string { return human(time.Duration(ms) * time.Millisecond) }

// since is how long ago t was. The cell's clock may be ahead of ours; what lies
// in the future by that was just now.
func since(t time.Time) string { return human(max(0, time.Since(t))) }

// plural is "1 lock", "2 locks".
func plural(n int, noun string) string { return pluralOf(n, noun, noun+"s") }

// byteSize is a number of bytes as people read it.
func byteSize(n int64) string {
	if n < 1<<10 {
		return plural(int(n), "byte")
	}
	size, unit := float64(n)/(1<<10), "KiB"
	for _, next := range []string{"MiB", "GiB"} {
		if size >= 1<<10 {
			size, unit = size/(1<<10), next
		}
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// pluralOf is plural for words that do not just get an s.
func pluralOf[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
