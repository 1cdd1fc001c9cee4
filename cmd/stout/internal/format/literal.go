package format

import "strings"

// IsLiteral reports whether bash, zsh, fish and PowerShell all take s
// literally: no quotes, blanks, globs, substitutions or operators, and no first
// character that makes it a flag, a variable or a job. ":" and "=" end words in
// bash, and "," in PowerShell. Letters beyond ASCII depend on the locale: some
// shells take one of their bytes for a blank.
func IsLiteral(s string) bool {
	return s != "" && (s[0] == '/' || isAlphanumeric(rune(s[0]))) && !strings.ContainsFunc(s, special)
}

// LiteralText returns s with a question mark for each special character.
func LiteralText(s string) string {
	return strings.Map(func(r rune) rune {
		if special(r) && r != ' ' {
			return '?'
		}
		return r
	}, s)
}

func special(r rune) bool { return !isAlphanumeric(r) && !strings.ContainsRune("/._-+@", r) }

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}
