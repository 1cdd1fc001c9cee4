// Package safetext escapes text from untrusted sources. Shown on a terminal or
// in a log, the text is readable and cannot control the terminal. This package
// alone defines the rule, for stout's output and for stoutd's log.
//
// These are escaped, as in a Go or JSON string: control characters that
// terminals obey (of seven and of eight bits, including line ends),
// bidirectional controls, invisible characters (of zero width, fillers and
// tags), blanks other than the space, and bytes that are not UTF-8. So the text
// cannot clear a screen, set a title, forge a line, or make two different names
// look alike in these ways. Letters that look like others are kept, because
// they belong to real languages.
package safetext

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether a character must be escaped.
func Hidden(r rune) bool {
	if ' ' <= r && r <= '~' {
		return false
	}
	return !strconv.IsPrint(r) || r == brailleBlank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// brailleBlank counts as a visible sign in Unicode, but shows nothing.
const brailleBlank = '\u2800'

// Name escapes a name for a line of output. It doubles backslashes, so that no
// two names look alike.
func Name(s string) string {
	return escape(s, func(r rune) bool { return r == '\\' || Hidden(r) }, inGo)
}

// Line escapes text for one line that may contain the output of Name or
// strconv.Quote. It keeps backslashes.
func Line(s string) string { return escape(s, Hidden, inGo) }

// Page escapes text of several lines, with tabs. It escapes a carriage return
// unless it ends a line.
func Page(s string) string {
	if !strings.ContainsRune(s, '\r') {
		return escape(s, hiddenOnPage, inGo)
	}
	lines := strings.SplitAfter(s, "\r\n")
	for i, line := range lines {
		rest, ended := strings.CutSuffix(line, "\r\n")
		if lines[i] = escape(rest, hiddenOnPage, inGo); ended {
			lines[i] += "\n"
		}
	}
	return strings.Join(lines, "")
}

func hiddenOnPage(r rune) bool { return r != '\n' && r != '\t' && Hidden(r) }

// JSON escapes a JSON text with JSON's own escapes, so that it still has the
// same meaning. It keeps line ends, because no untrusted source chooses them.
func JSON(s string) string {
	return escape(s, func(r rune) bool { return r != '\n' && Hidden(r) }, inJSON)
}

// escape calls write for each hidden character of s. For a byte that is not
// part of a character, it passes the negated byte.
func escape(s string, hidden func(rune) bool, write func(*strings.Builder, rune)) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			write(&b, -rune(s[i]))
		case hidden(r):
			write(&b, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func inGo(b *strings.Builder, r rune) {
	if r < 0 {
		fmt.Fprintf(b, `\x%02x`, -r)
		return
	}
	quoted := strconv.QuoteRuneToASCII(r)
	b.WriteString(quoted[1 : len(quoted)-1])
}

func inJSON(b *strings.Builder, r rune) {
	if r < 0 {
		r = utf8.RuneError
	}
	for _, unit := range utf16.Encode([]rune{r}) {
		fmt.Fprintf(b, `\u%04x`, unit)
	}
}

// Lines returns a writer for a log in JSON. Each Write is one line, which has
// no line end except the last byte.
func Lines(w io.Writer) io.Writer { return lines{w} }

type lines struct{ w io.Writer }

func (l lines) Write(p []byte) (int, error) {
	text, ended := strings.CutSuffix(string(p), "\n")
	if safe := escape(text, Hidden, inJSON); safe != text {
		if ended {
			safe += "\n"
		}
		if _, err := io.WriteString(l.w, safe); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return l.w.Write(p)
}
