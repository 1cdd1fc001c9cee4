package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Block is a block of code in a page. A comment right above its fence, which
// readers do not see, decides how the block is run:
//
//	<!-- run                    run it in a shell; it must exit with 0
//	start                       let it run while later blocks run
//	until                       end it once its output has each TEXT
//	fresh                       first end all running blocks, and start a new cell
//	in: DIR                     run it in that directory, which is made if missing
//	before: COMMAND             run the command first, in the same shell; repeatable
//	says: TEXT                  its output must have TEXT, after the previous TEXT; repeatable
//	file: NAME                  the block is a file that the reader writes, not a command
//	-->
//	<!-- run by PACKAGE TEST    a test of that package runs it
//	-->
//	<!-- not run: REASON -->    one of the reasons that TestBlocksAreRun accepts
//
// A block without a language right below a block that is run shows its output.
type Block struct {
	Page string
	Line int // of the fence
	Lang string
	Text string

	Marked bool
	Run    bool
	Start  bool
	Until  bool
	Fresh  bool
	In     string
	Before []string
	Says   []string
	File   string
	By     string // package and test
	Not    string // reason
}

// Place returns the page and the line for messages.
func (b Block) Place() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Pages returns the pages of the module at root, as paths relative to root.
func Pages(root string) (all []string, err error) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/lab/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			short, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			all = append(all, filepath.ToSlash(short))
		}
	}
	return all, nil
}

// Blocks reads the blocks of a page, given as a path relative to root.
func Blocks(root, page string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	return parse(page, string(text))
}

func parse(page, text string) (all []Block, err error) {
	lines := strings.Split(text, "\n")
	mark, end := "", -1 // the last comment, and the line after it
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if strings.HasPrefix(line, "<!--") {
			from := i
			for ; i < len(lines) && !strings.HasSuffix(strings.TrimSpace(lines[i]), "-->"); i++ {
			}
			if i == len(lines) {
				return nil, fmt.Errorf("%s:%d: the comment has no end (-->)", page, from+1)
			}
			mark, end = strings.Join(lines[from:i+1], "\n"), i+1
			continue
		}
		if !strings.HasPrefix(line, "```") {
			continue
		}
		b := Block{Page: page, Line: i + 1, Lang: strings.TrimPrefix(line, "```")}
		indent := lines[i][:strings.Index(lines[i], "```")]
		var body []string
		for at := i + 1; ; at++ {
			if at == len(lines) {
				return nil, fmt.Errorf("%s: the block has no closing fence", b.Place())
			}
			if strings.TrimSpace(lines[at]) == "```" {
				if end == i && mark != "" {
					if err := b.read(mark); err != nil {
						return nil, err
					}
				}
				i = at
				break
			}
			body = append(body, strings.TrimPrefix(lines[at], indent)+"\n")
		}
		b.Text = strings.Join(body, "")
		if last := len(all) - 1; last >= 0 && b.Lang == "" && all[last].Run && follows(lines, all[last], b.Line) {
			all[last].Says = append(all[last].Says, strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n")...)
			continue
		}
		all = append(all, b)
	}
	return all, nil
}

// follows reports whether only empty lines are between the end of a block and the
// fence of the next block at the given line.
func follows(lines []string, before Block, line int) bool {
	behind := before.Line + strings.Count(before.Text, "\n") + 1
	return strings.TrimSpace(strings.Join(lines[behind:line-1], "")) == ""
}

// read reads the comment above the block.
func (b *Block) read(comment string) error {
	comment = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(comment), "<!--"), "-->"))
	first, rest, _ := strings.Cut(comment, "\n")
	reason, not := strings.CutPrefix(first, "not run: ")
	by, other := strings.CutPrefix(first, "run by ")
	switch {
	case not:
		b.Not = strings.Join(strings.Fields(reason+" "+rest), " ")
		rest = ""
	case other:
		b.By = strings.TrimSpace(by)
	case strings.TrimSpace(first) == "run":
		b.Run = true
	default:
		return nil // a comment for other purposes
	}
	b.Marked = true
	for line := range strings.SplitSeq(rest, "\n") {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "":
		case "start":
			b.Start = true
		case "until":
			b.Until = true
		case "fresh":
			b.Fresh = true
		case "in":
			b.In = value
		case "before":
			b.Before = append(b.Before, value)
		case "says":
			b.Says = append(b.Says, value)
		case "file":
			b.File = value
		default:
			return fmt.Errorf("%s: the comment above the block has an unknown line %q", b.Place(), line)
		}
	}
	return nil
}

var (
	shellWords = regexp.MustCompile(`'[^']*'|"[^"]*"|\$\([^)]*\)`)
	variables  = regexp.MustCompile(`\$\w+`)
	shellEnds  = regexp.MustCompile(`\s(#|\||>|<|&|;).*`)
)

// EachCall calls f with the words of each command line of a program in the pages.
// A quoted text or the output of a command is one word, a variable the word 1.
func EachCall(root, program string, f func(at string, words []string)) error {
	pages, err := Pages(root)
	for _, page := range pages {
		blocks, err := Blocks(root, page)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if b.Lang != "sh" {
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
				line = shellEnds.ReplaceAllString(shellWords.ReplaceAllString(strings.TrimSpace(line), "word"), "")
				words := strings.Fields(strings.TrimSuffix(variables.ReplaceAllString(line, "1"), " …"))
				if len(words) > 0 && words[0] == program {
					f(b.Place(), words)
				}
			}
		}
	}
	return err
}
