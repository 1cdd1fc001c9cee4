package overlay

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
)

// source is a parsed Go file.
type source struct {
	text []byte
	file *ast.File
	base int // position of the first byte
}

// parse parses a file as the overlay has it.
func (o Overlay) parse(name string) (source, error) {
	text, err := o.read(name)
	if err != nil {
		return source{}, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	return source{text, file, set.File(file.Pos()).Base()}, nil
}

func (s source) offset(at token.Pos) int { return int(at) - s.base }

func (s source) cut(from, to token.Pos) string {
	return string(s.text[s.offset(from):s.offset(to)])
}

// parts are the declarations of a file.
type parts struct {
	order   []string                 // keys of all declarations except imports
	funcs   map[string]*ast.FuncDecl // by key: receiver and name
	names   map[string][]string      // names in the other declarations, by their text
	imports []string                 // the texts of their specifications
}

func (s source) parts() parts {
	p := parts{funcs: map[string]*ast.FuncDecl{}, names: map[string][]string{}}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			key := d.Name.Name
			if d.Recv != nil {
				key = s.cut(d.Recv.List[0].Type.Pos(), d.Recv.List[0].Type.End()) + "." + key
			}
			for p.funcs[key] != nil { // a file may have several functions named init
				key += " "
			}
			p.funcs[key], p.order = d, append(p.order, key)
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				for _, spec := range d.Specs {
					p.imports = append(p.imports, s.cut(spec.Pos(), spec.End()))
				}
				continue
			}
			key := s.cut(d.Pos(), d.End())
			p.names[key], p.order = declared(d), append(p.order, key)
		}
	}
	return p
}

func (p parts) has(key string) bool {
	_, other := p.names[key]
	return other || p.funcs[key] != nil
}

// declared returns the names that a declaration of constants, variables or
// types declares.
func declared(d *ast.GenDecl) (names []string) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				names = append(names, n.Name)
			}
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		}
	}
	return names
}

// signature returns the text of a function before its body.
func (s source) signature(f *ast.FuncDecl) string {
	return string(bytes.TrimSpace(s.text[s.offset(f.Pos()):s.offset(f.Body.Lbrace)]))
}

// recovers reports whether a function calls recover itself: in a function
// called by another one, recover would have no effect.
func recovers(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "recover" {
				found = true
			}
		}
		_, literal := n.(*ast.FuncLit)
		return !literal
	})
	return found
}

// patch replaces a range of the text.
type patch struct {
	from, to int
	text     string
}

// named gives a name to each unnamed parameter of a function, including its
// receiver, and returns the patches for that. It also returns the names of the
// receiver and of the other parameters as a call passes them on.
func (s source) named(f *ast.FuncDecl) (patches []patch, receiver string, args []string) {
	name := func(field *ast.Field) (names []string) {
		if len(field.Names) == 0 {
			given := fmt.Sprintf("given%d", len(patches))
			at := s.offset(field.Type.Pos())
			patches = append(patches, patch{at, at, given + " "})
			return []string{given}
		}
		for _, n := range field.Names {
			given := n.Name
			if given == "_" {
				given = fmt.Sprintf("given%d", len(patches))
				patches = append(patches, patch{s.offset(n.Pos()), s.offset(n.End()), given})
			}
			names = append(names, given)
		}
		return names
	}
	if f.Recv != nil {
		receiver = name(f.Recv.List[0])[0] + "."
	}
	for _, field := range f.Type.Params.List {
		args = append(args, name(field)...)
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			args[len(args)-1] += "..."
		}
	}
	return patches, receiver, args
}
