package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A block is a comment, a paragraph, a list item, a table row or a string of
// prose: the unit that is counted.
type block struct {
	file string
	line int
	text string
}

// group returns the name of the file's group, the unit of a share: a package's product
// or tests, or a page.
func group(file string) string {
	dir, name := filepath.Split(file)
	switch {
	case strings.HasSuffix(name, "_test.go"):
		return filepath.Clean(dir) + " (tests)"
	case strings.HasSuffix(name, ".go"), strings.HasSuffix(name, ".js"), strings.HasSuffix(name, ".html"):
		return filepath.Clean(dir)
	}
	return file
}

// blocks reads the prose of a file. It returns nil for files without prose.
func blocks(file string) ([]block, error) {
	switch filepath.Ext(file) {
	case ".go":
		return goBlocks(file)
	case ".md":
		return lineBlocks(file, markdown)
	case ".yaml":
		if strings.Contains(filepath.Base(file), "openapi") {
			return lineBlocks(file, yaml)
		}
	case ".js", ".html":
		return lineBlocks(file, script)
	}
	return nil, nil
}

// goBlocks returns comments, and in product code the strings of four words or
// more: errors, help, log messages and the help of metrics.
func goBlocks(file string) (all []block, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, c := range f.Comments {
		if !strings.HasPrefix(c.Text(), "Code generated") {
			all = append(all, block{file, set.Position(c.Pos()).Line, c.Text()})
		}
	}
	if strings.HasSuffix(file, "_test.go") {
		return all, nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err == nil && len(strings.Fields(text)) >= 4 {
			for paragraph := range strings.SplitSeq(text, "\n\n") {
				all = append(all, block{file, set.Position(lit.Pos()).Line, paragraph})
			}
		}
		return true
	})
	return all, nil
}

// A format returns the prose of a line, and whether a new block begins with it.
type format func(line string, state *lines) (text string, begins bool)

// lines has what a format remembers of the previous lines.
type lines struct{ fenced, folded, hidden bool }

// lineBlocks joins a file's lines of prose to blocks.
func lineBlocks(file string, f format) (all []block, err error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	state, open := &lines{}, false
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		text, begins := f(scan.Text(), state)
		switch {
		case text == "":
			open = false
		case open && !begins:
			all[len(all)-1].text += " " + text
		default:
			all, open = append(all, block{file, n, text}), true
		}
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

var item = regexp.MustCompile(`^(?:[-*] |\d+\. |\||#)`)

func markdown(line string, state *lines) (string, bool) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "```") {
		state.fenced = !state.fenced
		return "", true
	}
	hidden := state.hidden || strings.HasPrefix(line, "<!--")
	state.hidden = hidden && !strings.HasSuffix(line, "-->")
	if state.fenced || hidden || strings.HasPrefix(line, "<") || strings.HasPrefix(line, "| ---") {
		return "", true
	}
	begins := item.MatchString(line)
	return strings.TrimLeft(line, "-*|# "), begins
}

var described = regexp.MustCompile(`^\s*(?:- )?(?:description|summary): *(.*)$`)

func yaml(line string, state *lines) (string, bool) {
	if m := described.FindStringSubmatch(line); m != nil {
		state.folded = strings.HasPrefix(m[1], "|") || strings.HasPrefix(m[1], ">")
		if state.folded {
			return "", true
		}
		return strings.Trim(m[1], `"'`), true
	}
	if state.folded && !strings.Contains(line, ": ") && !strings.HasSuffix(line, ":") {
		return strings.TrimSpace(line), false
	}
	state.folded = false
	return "", true
}

// phrase matches a JavaScript string or a text of HTML with four words or more.
var phrase = regexp.MustCompile("[\"'`>]((?:[\\w,.;:()’-]+ ){3,}[^\"'`<]*)")

func script(line string, _ *lines) (string, bool) {
	line = strings.TrimSpace(line)
	if comment, ok := strings.CutPrefix(line, "//"); ok {
		return strings.TrimSpace(comment), false
	}
	if m := phrase.FindStringSubmatch(line); m != nil {
		return m[1], true
	}
	return "", true
}
