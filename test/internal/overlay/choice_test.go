package overlay

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stoutlock/stout/test/sim/fault"
)

// TestChoice selects each of many edits of one program in turn. A program with
// all of them does the same as one built with that edit alone.
func TestChoice(t *testing.T) {
	t.Parallel()
	const file, plain = "test/internal/overlay/testdata/choice/main.go", "k=1 [x y] 3 1 b <nil> <nil> of none first, second"
	edits := []struct{ was, is, says string }{
		{"fmt.Sprint(p.key,", "fmt.Sprint(more[0], p.key,", "xk=1 [x y] 3 1 b <nil> <nil> of none first, second"},
		{"return a + b", "return a - b", "k=1 [x y] -1 1 b <nil> <nil> of none first, second"},
		{"return a + b", "return twice(a) }\n\nfunc twice(a int) int { return 2 * a", "k=1 [x y] 2 1 b <nil> <nil> of none first, second"},
		{"*n += step", "*n -= step", "k=1 [x y] 3 -1 b <nil> <nil> of none first, second"},
		{"all[len(all)-1]", "all[0]", "k=1 [x y] 3 1 a <nil> <nil> of none first, second"},
		{"return \"of none\"", "return \"of one\"", "k=1 [x y] 3 1 b <nil> <nil> of one first, second"},
		{"\", second\"", "\", third\"", "k=1 [x y] 3 1 b <nil> <nil> of none first, third"},
		{"import \"fmt\"\n", "import \"fmt\"\nimport \"errors\"\n\nvar errLast = errors.New(\"last\")\n", plain},
		{"\t\treturn out, nil\n\t}\n\tout =", "\t\treturn out, nil\n\t}\n\terr = fmt.Errorf(\"%d\", len(all))\n\tout =", "k=1 [x y] 3 1 b 2 <nil> of none first, second"},
		// These need builds of their own.
		{"step = 1", "step = 2", ""},
		{"return recover()", "return fmt.Sprint(recover())", ""},
		{"add(a, b int)", "add(b, a int)", ""},
		{"return a + b", "return twice(a) }\n\nfunc twice(a int) int { return 3 * a", ""},
	}
	root, err := filepath.Abs("../../..")
	must(t, err)
	var all []Edit
	var want []int
	for i, e := range edits {
		all = append(all, Edit{file, e.was, e.is})
		if e.says == "" {
			want = append(want, i)
		}
	}
	o, alone, err := Choice(Overlay{}, root, all)
	must(t, err)
	if !slices.Equal(alone, want) {
		t.Errorf("%v need builds of their own, want %v", alone, want)
	}
	program := filepath.Join(t.TempDir(), "choice")
	must(t, Program(t.Context(), root, program, "./"+filepath.Dir(file), o))
	if got := output(t.Context(), program, ""); got != plain {
		t.Errorf("without an edit it prints %q, want %q", got, plain)
	}
	for i, e := range edits {
		if e.says == "" {
			continue
		}
		if got := output(t.Context(), program, fmt.Sprint(i+1)); got != e.says {
			t.Errorf("with %q it prints %q, want %q", e.is, got, e.says)
		}
	}
	if got := output(t.Context(), program, "one"); got == plain {
		t.Error("a fault that is not a number is ignored")
	}
}

// output runs a program with a fault and returns its output.
func output(ctx context.Context, program, number string) string {
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), fault.Env+"="+number)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(out))
}
