package overlay

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// chooser is the package that selects an edit, and chosen is its name where it
// is imported.
const (
	chooser = "github.com/stoutlock/stout/test/sim/fault"
	chosen  = "selectedFault"
)

// Choice returns base with many edits in one program. When the program starts,
// the environment selects one of them, or none (package fault). A function that
// an edit changes keeps its text and gets a copy with the edit. If that edit is
// selected, the function only calls the copy. Edits are numbered from 1 in the
// order of the list.
//
// alone holds the indexes of edits that are not in the program and need a build
// of their own (Mutated): edits of constants, variables, types and signatures.
func Choice(base Overlay, root string, edits []Edit) (o Overlay, alone []int, err error) {
	o = base
	byFile := map[string][]int{}
	for i, e := range edits {
		byFile[e.File] = append(byFile[e.File], i)
	}
	declared := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		name := filepath.Join(root, filepath.FromSlash(file))
		was, err := base.parse(name)
		if err != nil {
			return o, nil, err
		}
		c := choice{was: was, parts: was.parts(), dir: path.Dir(file), declared: declared, jumps: map[string][]string{}}
		for _, i := range byFile[file] {
			mutated, err := Mutated(base, root, edits[i])
			if err != nil {
				return o, nil, err
			}
			is, err := mutated.parse(name)
			if err != nil {
				return o, nil, err
			}
			if !c.add(i+1, is) {
				alone = append(alone, i)
			}
		}
		if len(c.behind) > 0 {
			o = o.with(name, c.text())
		}
	}
	slices.Sort(alone)
	return o, alone, nil
}

// choice is a file with several edits.
type choice struct {
	was      source
	parts    parts
	dir      string              // the package's directory
	declared map[string]bool     // names that edits declare, after the package's directory
	jumps    map[string][]string // statements that call the copies of a function
	imports  []string            // added by edits
	behind   []string            // text at the end of the file: copies and declarations of edits
}

// add adds the result of one edit of the file. It returns false and adds
// nothing if the edit needs a build of its own.
func (c *choice) add(number int, is source) bool {
	now := is.parts()
	if slices.ContainsFunc(c.parts.order, func(key string) bool { return !now.has(key) }) {
		return false
	}
	var declares, behind []string
	jumps := map[string]string{}
	for _, key := range now.order {
		f, before := now.funcs[key], c.parts.funcs[key]
		switch {
		case f == nil && c.parts.has(key):
		case f == nil:
			declares, behind = append(declares, now.names[key]...), append(behind, key)
		case before == nil:
			declares, behind = append(declares, key), append(behind, is.cut(f.Pos(), f.End()))
		case is.cut(f.Pos(), f.End()) == c.was.cut(before.Pos(), before.End()):
		case is.signature(f) != c.was.signature(before) || recovers(f) || recovers(before):
			return false
		default:
			name := fmt.Sprintf("%sFault%d", f.Name.Name, number)
			jumps[key] = c.was.jump(before, number, name)
			behind = append(behind, is.cut(f.Pos(), f.Name.Pos())+name+is.cut(f.Name.End(), f.End()))
		}
	}
	if slices.ContainsFunc(declares, func(name string) bool { return c.declared[c.dir+" "+name] }) {
		return false // another edit declares it
	}
	for _, name := range declares {
		c.declared[c.dir+" "+name] = true
	}
	for _, spec := range now.imports {
		if !slices.Contains(c.parts.imports, spec) && !slices.Contains(c.imports, spec) {
			c.imports = append(c.imports, spec)
		}
	}
	for key, jump := range jumps {
		c.jumps[key] = append(c.jumps[key], jump)
	}
	c.behind = append(c.behind, behind...)
	return true
}

// jump returns the statement at the beginning of a function that calls its
// copy.
func (s source) jump(f *ast.FuncDecl, number int, copied string) string {
	_, receiver, args := s.named(f)
	var types []string
	if f.Type.TypeParams != nil {
		for _, field := range f.Type.TypeParams.List {
			for _, n := range field.Names {
				types = append(types, n.Name)
			}
		}
	}
	call := receiver + copied
	if len(types) > 0 {
		call += "[" + strings.Join(types, ", ") + "]"
	}
	call += "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return fmt.Sprintf(" if %s.Number == %d { %s; return };", chosen, number, call)
	}
	return fmt.Sprintf(" if %s.Number == %d { return %s };", chosen, number, call)
}

// text returns the file with all edits. Its lines keep their numbers.
func (c *choice) text() []byte {
	head := fmt.Sprintf("; import %s %q", chosen, chooser)
	for _, spec := range c.imports {
		head += "; import " + spec
	}
	at := c.was.offset(c.was.file.Name.End())
	patches := []patch{{at, at, head}}
	for key, jumps := range c.jumps {
		f := c.parts.funcs[key]
		names, _, _ := c.was.named(f)
		at := c.was.offset(f.Body.Lbrace) + 1
		patches = append(append(patches, names...), patch{at, at, strings.Join(jumps, "")})
	}
	slices.SortFunc(patches, func(a, b patch) int { return a.from - b.from })
	var out []byte
	done := 0
	for _, p := range patches {
		out = append(append(out, c.was.text[done:p.from]...), p.text...)
		done = p.to
	}
	out = append(out, c.was.text[done:]...)
	for _, text := range c.behind {
		out = append(out, "\n"+text+"\n"...)
	}
	return out
}
