package safetext

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"billing@host7":            "billing@host7",
		"größe \"x\" 'y' 日本 👍":     "größe \"x\" 'y' 日本 👍",
		"red \x1b[31m":             `red \x1b[31m`,
		"eight bits \u009b2J":      `eight bits \u009b2J`,
		"two\r\nlines\u2028\u2029": `two\r\nlines\u2028\u2029`,
		"bad \xff\xe2\x80":         `bad \xff\xe2\x80`,
		"really \ufffd":            "really \ufffd",
		"turned \u202e \u2066":     `turned \u202e \u2066`,
		"no width \u200b\u200d\ufeff\u00ad\u2060":                          `no width \u200b\u200d\ufeff\u00ad\u2060`,
		"fillers \u115f\u3164\uffa0\u2800\ufe0f\u034f\U000e0041\U000e0100": `fillers \u115f\u3164\uffa0\u2800\ufe0f\u034f\U000e0041\U000e0100`,
		"blank\u00a0\u3000": `blank\u00a0\u3000`,
		`C:\n`:              `C:\\n`,
	} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPage(t *testing.T) {
	for in, want := range map[string]string{
		"a\n\tb\n":           "a\n\tb\n",
		"a\r\nb\r\n":         "a\nb\n",
		"50%\r100%\n":        "50%\\r100%\n",
		"a\r\r\n":            "a\\r\n",
		"\x1b]0;t\a\\\n\xfe": "\\x1b]0;t\\a\\\n\\xfe",
	} {
		if got := Page(in); got != want {
			t.Errorf("Page(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	for _, line := range []string{`{"a":"b"}` + "\n", "{\"a\":\"\u009b\u202e\n{\\\"b\\\":1}\"}\n", "\xff"} {
		if n, err := io.WriteString(Lines(&out), line); n != len(line) || err != nil {
			t.Errorf("%d of %d bytes, %v", n, len(line), err)
		}
	}
	want := `{"a":"b"}` + "\n" + `{"a":"\u009b\u202e\u000a{\"b\":1}"}` + "\n" + `\ufffd`
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// obeyed reports, independently of this package, whether a terminal may obey or
// hide a character.
func obeyed(r rune) bool {
	return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		unicode.Is(unicode.Zs, r) && r != ' '
}

func FuzzEscape(f *testing.F) {
	f.Add("x\x1b[2J\u009b2J\x1b]0;t\a\u202e\u2066\r\nstout: all is well\x7f\xff\\")
	f.Add("\ufffd\xed\xa0\x80\U0010ffff")
	f.Fuzz(func(t *testing.T, s string) {
		for name, got := range map[string]string{"Name": Name(s), "Line": Line(s)} {
			if i := strings.IndexFunc(got, obeyed); i >= 0 || !utf8.ValidString(got) {
				t.Errorf("%s(%q) is %q, with what is obeyed at %d", name, s, got, i)
			}
		}
		onPage := func(r rune) bool { return r != '\n' && r != '\t' && obeyed(r) }
		if got := Page(s); strings.ContainsFunc(got, onPage) || !utf8.ValidString(got) ||
			strings.Count(got, "\n") != strings.Count(s, "\n") {
			t.Errorf("Page(%q) is %q", s, got)
		}
		if got := Line(Name(s)); got != Name(s) {
			t.Errorf("Line changes Name(%q) to %q", s, got)
		}
		// A name can be read back, so no two look alike.
		if back, err := strconv.Unquote(`"` + strings.ReplaceAll(Name(s), `"`, `\"`) + `"`); err != nil || back != s {
			t.Errorf("Name(%q) is read back as %q, %v", s, back, err)
		}
		text, err := json.MarshalIndent(map[string]string{s: s}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		safe := JSON(string(text))
		var was, is map[string]string
		if json.Unmarshal(text, &was) != nil || json.Unmarshal([]byte(safe), &is) != nil || len(is) != 1 {
			t.Fatalf("%q is not JSON after escaping: %q", text, safe)
		}
		for key, value := range was {
			if is[key] != value {
				t.Errorf("%q is read as %q", was, is)
			}
		}
		if strings.ContainsFunc(safe, func(r rune) bool { return r != '\n' && obeyed(r) }) {
			t.Errorf("JSON(%q) is %q", text, safe)
		}
		var log bytes.Buffer
		line := append(bytes.ReplaceAll(text, []byte("\n"), nil), '\n')
		if _, err := Lines(&log).Write(line); err != nil || strings.Count(log.String(), "\n") != 1 || strings.ContainsFunc(strings.TrimSuffix(log.String(), "\n"), obeyed) {
			t.Errorf("the log has %q, %v", log.String(), err)
		}
	})
}
