package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// mostOwn bounds the words of our own in docs/glossary.md.
const mostOwn = 15

// TestVocabulary checks that every word of an exported name in the product, and of
// the name of its file, is in testdata/vocabulary.txt, which lists the field's words by their source, or is one
// of our own words in docs/glossary.md; and that no listed word is unused.
func TestVocabulary(t *testing.T) {
	list := read(t, "internal/docs/testdata/vocabulary.txt")
	used := map[string]bool{} // by listed word
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "#") {
			for _, word := range strings.Fields(line) {
				used[word] = false
			}
		}
	}
	own := ownWords(t)
	if len(own) > mostOwn {
		t.Errorf("docs/glossary.md has %d words of our own; at most %d", len(own), mostOwn)
	}
	for _, word := range own {
		used[word] = true
	}
	names := productWords(t)
	for _, word := range slices.Sorted(maps.Keys(names)) {
		listed := listedIn(word, used)
		if listed == nil {
			t.Errorf("%q, in %s, is neither the field's (testdata/vocabulary.txt) nor in docs/glossary.md: take the field's word, or explain yours", word, names[word])
			continue
		}
		for _, word := range listed {
			used[word] = true
		}
	}
	for _, word := range slices.Sorted(maps.Keys(used)) {
		if !used[word] {
			t.Errorf("testdata/vocabulary.txt lists %q, which no exported name or file has", word)
		}
	}
}

// ownWords returns the first column of the first table in docs/glossary.md.
func ownWords(t *testing.T) (own []string) {
	t.Helper()
	text := read(t, "docs/glossary.md")
	table, _, _ := strings.Cut(text, "## From")
	for line := range strings.Lines(table) {
		if row := cells(strings.TrimSpace(line)); len(row) > 1 && row[0] != "word" && !strings.HasPrefix(row[0], "---") {
			own = append(own, strings.Trim(row[0], "`"))
		}
	}
	return own
}

// listedIn returns the listed word that a word is a form of, or the words of a
// compound such as freebytes. It returns nil for an unknown word.
func listedIn(word string, list map[string]bool) []string {
	for _, stem := range stems(word) {
		if _, ok := list[stem]; ok {
			return []string{stem}
		}
	}
	for at := 3; at <= len(word)-3; at++ { // shorter parts would be found in any word
		if first := listedIn(word[:at], list); first != nil {
			if rest := listedIn(word[at:], list); rest != nil {
				return append(first, rest...)
			}
		}
	}
	return nil
}

// stems returns a word and what it may be a form of.
func stems(word string) []string {
	all := []string{word}
	for _, end := range []struct{ from, to string }{
		{"s", ""}, {"es", ""}, {"ies", "y"}, {"ed", ""}, {"ed", "e"}, {"ied", "y"}, {"ing", ""}, {"ing", "e"}, {"er", ""}, {"er", "e"}, {"ers", ""}, {"ers", "e"}, {"or", ""}, {"or", "e"},
	} {
		if stem, ok := strings.CutSuffix(word, end.from); ok && len(stem) > 1 {
			stem += end.to
			all = append(all, stem)
			if n := len(stem); end.to == "" && n > 3 && stem[n-1] == stem[n-2] { // stopped
				all = append(all, stem[:n-1])
			}
		}
	}
	return all
}

// productWords returns the words of exported types, functions, methods, constants,
// variables and fields of the product, and of its files, each with a place.
func productWords(t *testing.T) map[string]string {
	t.Helper()
	words := map[string]string{}
	sources(t, func(name string) {
		for _, word := range splitName(strings.TrimSuffix(path.Base(name), ".go")) {
			words[word] = name
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), 0)
		must(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			for _, id := range declared(n) {
				if id.IsExported() {
					for _, word := range splitName(id.Name) {
						words[word] = path.Base(path.Dir(name)) + "." + id.Name
					}
				}
			}
			_, body := n.(*ast.BlockStmt)
			return !body
		})
	}, "client", "lockapi", "lease", "master", "replica", "cmd/stout", "cmd/stoutd", "internal")
	return words
}

func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	}
	return nil
}

// splitName splits at changes of case: HTTPServer is http, server.
func splitName(name string) (words []string) {
	runes := []rune(name)
	isUpper := func(i int) bool { return i < len(runes) && runes[i] >= 'A' && runes[i] <= 'Z' }
	start := 0
	for i := 1; i <= len(runes); i++ {
		ends := i == len(runes) || isUpper(i) && (!isUpper(i-1) || i+1 < len(runes) && !isUpper(i+1)) || runes[i] == '_'
		if ends {
			words = append(words, strings.ToLower(strings.Trim(string(runes[start:i]), "_")))
			start = i
		}
	}
	return words
}
