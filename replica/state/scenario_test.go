package state_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/state"
)

var rewrite = flag.Bool("rewrite", false, "record what the scenarios and golden files give now")

// TestScenarios plays testdata/*.txt: one file per promise, with the promise in the
// first comment. A block of input lines is followed by "----" and its output, if any;
// a blank line ends it. -rewrite records the outputs again, to be reviewed as a diff.
//
// A block of commands is one batch, that is, one log entry. A first line
// "batch epoch=N term=N lease=N" makes it differ from a batch of the open office. A
// line may begin with a caller and ": ". Other blocks are read line by line:
//
//	cell S…                    open an office in term 1 and the sessions S…
//	now N                      time of the following commands
//	restore FLOOR              as from a backup
//	handle S P [handle]        the pair's hold or wait, and its position
//	would OPERATION            the predicted result
//	file P | files PREFIX [AFTER]
//	lock P | holder P TOKEN | key K | locks PREFIX [AFTER] | handles S | dump
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(data))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if line, want, have := firstDifference(string(data), got); line > 0 {
				t.Errorf("%s:%d:\nrecorded: %s\n    now: %s\n(-rewrite records it again)", file, line, want, have)
			}
		})
	}
}

func firstDifference(want, got string) (line int, a, b string) {
	if want == got {
		return 0, "", ""
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b = "(end)", "(end)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return i + 1, a, b
		}
	}
	return 0, "", ""
}

// play runs a scenario and returns it with the outputs of this run.
func play(t *testing.T, text string) string {
	t.Helper()
	p := &player{state: state.New(), now: 1}
	var out strings.Builder
	for _, block := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		var input []string
		for line := range strings.SplitSeq(block, "\n") {
			if line == "----" {
				break
			}
			fmt.Fprintln(&out, line)
			if line != "" && !strings.HasPrefix(line, "#") {
				input = append(input, line)
			}
		}
		if len(input) > 0 {
			result, err := p.block(input)
			if err != nil {
				t.Fatalf("%s: %v", strings.Join(input, "; "), err)
			}
			if result != "" {
				fmt.Fprint(&out, "----\n", result)
			}
		}
		if err := p.state.Check(); err != nil {
			t.Fatalf("after %s: %v", strings.Join(input, "; "), err)
		}
		fmt.Fprintln(&out)
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

type player struct {
	state *state.State
	now   int64
}

func (p *player) block(lines []string) (string, error) {
	_, first := callerOf(lines[0])
	if word, _, _ := strings.Cut(first, " "); word == "batch" || word == "transaction" || parsers[word] != nil {
		return p.batch(lines)
	}
	var out strings.Builder
	for _, line := range lines {
		text, err := p.line(strings.Fields(line))
		if err != nil {
			return "", err
		}
		if text = strings.TrimRight(text, "\n"); text != "" {
			fmt.Fprintln(&out, text)
		}
	}
	return out.String(), nil
}

// callerOf splits a line into its caller, if any, and the rest.
func callerOf(line string) (caller, rest string) {
	if who, rest, named := strings.Cut(line, ": "); named {
		return who, rest
	}
	return "", line
}

// batch applies the lines as one entry and lists the results, then the events.
func (p *player) batch(lines []string) (string, error) {
	b := state.Batch{Epoch: p.state.Epoch, LeaseMS: 2000}
	term := max(p.state.Office.Term, 1)
	if args, ok := strings.CutPrefix(lines[0], "batch"); ok {
		a := parseArgs(strings.Fields(args))
		b.Epoch, term = uint64(a.num("epoch", int64(b.Epoch))), uint64(a.num("term", int64(term)))
		b.LeaseMS = a.num("lease", b.LeaseMS)
		if a.err != nil {
			return "", a.err
		}
		lines = lines[1:]
	}
	for _, line := range lines {
		caller, line := callerOf(line)
		op, err := parseOperation(strings.Fields(line))
		if err != nil {
			return "", err
		}
		if open, ok := op.(*state.OpenOffice); ok && open.Term == 0 {
			open.Term = term
		}
		b.Commands = append(b.Commands, state.Command{Time: p.now, Caller: caller, Operation: op})
	}
	return p.apply(term, b), nil
}

func (p *player) apply(term uint64, b state.Batch) string {
	next, outcome := p.state.Apply(p.state.Index+1, term, b)
	p.state = next
	var out strings.Builder
	switch {
	case !outcome.Accepted:
		out.WriteString("not accepted\n")
	case len(b.Commands) == 0:
		out.WriteString("accepted\n")
	}
	for _, r := range outcome.Results {
		fmt.Fprintln(&out, resultText(r))
	}
	for _, c := range outcome.Changes {
		fmt.Fprintln(&out, "  *", changeText(c))
	}
	return out.String()
}

func (p *player) line(w []string) (string, error) {
	a := parseArgs(w[1:])
	s := p.state
	switch w[0] {
	case "cell":
		p.apply(1, state.Batch{LeaseMS: 2000, Commands: []state.Command{{Time: p.now, Operation: &state.OpenOffice{Master: "r1", Term: 1}}}})
		b := state.Batch{Epoch: p.state.Epoch, LeaseMS: 2000}
		for _, id := range a.plain {
			b.Commands = append(b.Commands, state.Command{Time: p.now, Operation: &state.OpenSession{Session: id, TTLMS: 12000}})
		}
		p.apply(1, b)
		return "", nil
	case "now":
		n, err := strconv.ParseInt(a.at(0), 10, 64)
		p.now = n
		return "", err
	case "restore":
		n, err := strconv.ParseUint(a.at(0), 10, 64)
		if err == nil {
			p.state = s.Restored(n)
		}
		return "", err
	case "handle":
		h, wait := s.HoldOrWait(a.at(0), a.at(1), a.at(2))
		return holdOrWaitText(s, h, wait), nil
	case "handles":
		var out strings.Builder
		for h, wait := range s.HoldsAndWaits(a.at(0)) {
			fmt.Fprintln(&out, holdOrWaitText(s, h, wait))
		}
		return orNone(out.String()), nil
	case "would":
		op, err := parseOperation(w[1:])
		if err != nil {
			return "", err
		}
		r, changes := s.Would(op)
		return fields(resultText(r), word("and changes something", changes)), nil
	}
	return p.lookup(w[0], a)
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func (p *player) lookup(what string, a *args) (string, error) {
	s := p.state
	switch what {
	case "lock":
		if l, ok := s.Lock(a.at(0)); ok {
			return lockText(l), nil
		}
		return "free", nil
	case "holder":
		token, err := strconv.ParseUint(a.at(1), 10, 64)
		if h, ok := s.HoldByToken(a.at(0), token); ok {
			return holdText(h), err
		}
		return "none", err
	case "key":
		if v, ok := s.SessionByKey(a.at(0)); ok {
			return sessionText(v), nil
		}
		return "none", nil
	case "locks":
		var out strings.Builder
		for l := range s.Locks(strings.Trim(a.at(0), `"`), a.at(1)) {
			fmt.Fprintln(&out, lockText(l))
		}
		return orNone(out.String()), nil
	case "file":
		if f, ok := s.File(a.at(0)); ok {
			return fileText(f), nil
		}
		return "none", nil
	case "files":
		var out strings.Builder
		for f := range s.Files(strings.Trim(a.at(0), `"`), a.at(1)) {
			fmt.Fprintln(&out, fileText(f))
		}
		return orNone(out.String()), nil
	case "dump":
		return dumpText(s), nil
	}
	return "", fmt.Errorf("unknown line %q", what)
}
