// Package safetext writes text that somebody else has chosen so that whoever
// reads it, on a terminal or in a log, is shown it and not commanded by it. It is
// the one place where that is decided for stout's output and for stoutd's log.
//
// What is written as an escape, as in a string of Go or of JSON, is what a
// terminal obeys rather than shows (control characters of seven bits and of
// eight, line ends among them), what turns the text around it (the bidirectional
// controls), what is not seen (characters of no width, fillers and tags), blanks
// but the usual one, and bytes that are no UTF-8. So nothing clears a screen,
// sets a title, forges a line, or makes two different names look alike that way.
// Letters that look like others are left: they are somebody's language.
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

// Hidden says that a character is not shown as it is.
func Hidden(r rune) bool {
	if ' ' <= r && r <= '~' {
		return false
	}
	return !strconv.IsPrint(r) || r == brailleBlank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// brailleBlank is a sign, for Unicode, that has nothing to see.
const brailleBlank = '\u2800'

// Name is text for a line of its author's: backslashes are doubled, so that no
// two texts look alike.
func Name(s string) string {
	return escape(s, func(r rune) bool { return r == '\\' || Hidden(r) }, inGo)
}

// Line is text for one line, in which what Name or strconv.Quote has dealt with
// may stand: a backslash stays as it is.
func Line(s string) string { return escape(s, Hidden, inGo) }

// Page is text of several lines, with tabs. A carriage return is shown, unless a
// line ends in it.
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

// JSON is a JSON text with escapes of its own, so that it still reads the same.
// Its line ends are nobody's choice, and stay.
func JSON(s string) string {
	return escape(s, func(r rune) bool { return r != '\n' && Hidden(r) }, inJSON)
}

// escape has write put down each character of s that is hidden, and each byte
// that is of none, as a negative number.
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

// Lines is a writer for a log of JSON: one line for each Write, which ends in a
// line end and has no other.
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
