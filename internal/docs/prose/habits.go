package main

import (
	"regexp"
	"strings"
)

// A habit is a turn of phrase that makes a reader stop. The words that each one
// matches are rare in well-read Go code: hashicorp/raft, bbolt, gin, zerolog and
// net/http have one in 1 to 3 of 100 blocks.
type habit struct {
	name  string
	never bool // one is too many, in any package
	find  *regexp.Regexp
}

// begins matches a word at the beginning of a sentence.
func begins(words string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[.!?]["')]? +|: )(?:` + words + `)\b`)
}

// habits has `\s` for a blank and quotes words, so that it has no findings itself.
var habits = []habit{
	{name: "a sentence begins with `Who`, `Whose` or `Whatever`", never: true, find: begins(`Who|Whose|Whom|Whoever|Whatever`)},
	{name: "`who`, `whose` or `whoever`: name the caller, the session, the replica", find: regexp.MustCompile(`\b(?:[Ww]ho|[Ww]hose|[Ww]hom|[Ww]hoever)\b`)},
	{name: "a sentence begins with its object or a clause: `Of`, `What`, `Where`; begin with the subject", find: begins(`Of|What|Where`)},
	{name: "code does not `tell`, `say`, `hear`, `mind` or `judge`: it reports, receives, checks", find: regexp.MustCompile(`\b(?:tells|told|says|said|hears|heard|minds|judges?|judged|judging)\b|\b(?:come|comes|came)\sto\s(?:a|an|the|nil|that|this|one|none|nothing)\b`)},
	{name: "`is none`, `is of`, `is nobody's`: name what is, with a verb of its own", find: regexp.MustCompile(`\b(?:is|are|was|were|be|being)\s(?:none|nobody's|nobody|of\s(?:no|a|an|the|that|this|one))\b|\b(?:all\sthe\ssame|have\sit\sdone|had\sit\sdone)\b`)},
	{name: "a word with a plainer counterpart: `stands` stays, `goes on` continues, `borne` tolerated, `for good` permanently", find: regexp.MustCompile(`\b(?:[Ww]hatever|stands|stood|go(?:es)?\son|went\son|of\swhich|of\swhom|[Mm]eanwhile|for\sgood|borne|bears|all\sthat|[Nn]obody(?:'s)?)\b`)},
	{name: "a pronoun for the noun: `those that`, `the one of`, `that of`", find: regexp.MustCompile(`\b(?:those\s(?:that|of|in|which)|the\sone\s(?:of|in|which)|is\sthat\sof)\b`)},
	{name: "two of `nobody`, `none`, `nothing`, `neither`, `no one`: name what happens", find: regexp.MustCompile(`(?is)\b(?:nobody|none|nothing|neither|no\sone)\b.*\b(?:nobody|none|nothing|neither|no\sone)\b`)},
	{name: "`he`, `his`, `she`: the caller, the operator, they", find: regexp.MustCompile(`\b(?:[Hh]e|[Hh]is|[Hh]im|[Ss]he|[Hh]er)\b`)},
}

// A finding is one habit in one block.
type finding struct {
	habit habit
	words string // what matched, with a little of the text around it
}

// check returns the habits that a text has, each once.
func check(text string) (found []finding) {
	text = strings.Join(strings.Fields(quotes.ReplaceAllString(text, "…")), " ")
	for _, h := range habits {
		if at := h.find.FindStringIndex(text); at != nil {
			from, to := max(0, at[0]-20), min(len(text), at[1]+40)
			found = append(found, finding{h, strings.ToValidUTF8(text[from:to], "")})
		}
	}
	return found
}

// quotes matches code and names, which are not prose.
var quotes = regexp.MustCompile("`[^`]*`|\\*who\\*|\\bwho(?:ami|is)\\b")
