package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// readYAML reads a file of settings from its syntax tree, so that each value has its
// line and all unknown keys are reported.
func (l *loader) readYAML(name string, content []byte) {
	short := filepath.Base(name)
	if !utf8.Valid(content) {
		l.refuseFile(name, "", "not YAML: it is not UTF-8")
		return
	}
	file, err := parser.ParseBytes(content, 0)
	if err != nil {
		l.refuseFile(name, "", "not YAML: "+firstLine(err))
		return
	}
	if len(file.Docs) > 1 {
		l.refuseFile(name, "", fmt.Sprintf("it has %d documents; it must have one", len(file.Docs)))
		return
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return
	}
	entries, ok := mapping(file.Docs[0].Body)
	if !ok {
		l.refuseFile(name, at(short, file.Docs[0].Body), "it must be a mapping of settings, like cell: local")
		return
	}
	for _, e := range entries {
		l.readEntry(short, e)
	}
}

func (l *loader) readEntry(file string, e *ast.MappingValueNode) {
	key, from := e.Key.GetToken().Value, at(file, e.Key)
	if key == fileReplicas {
		l.readReplicas(file, e)
		return
	}
	for _, s := range l.table {
		if s.name != key || key == nameReplica {
			continue
		}
		values, err := texts(e.Value, s.list != nil)
		if err != nil {
			l.refuse(key, "", from, err.Error())
			return
		}
		l.apply(s, values, from)
		return
	}
	if key == nameReplica {
		l.refuse(key, "", from, "in a file the key is replicas: a list of id, raft and api")
		return
	}
	l.refuseName(key, "", from, setting.key, "")
}

// readReplicas reads the list of replicas: objects of id, raft and api.
func (l *loader) readReplicas(file string, e *ast.MappingValueNode) {
	from := at(file, e.Key)
	list, ok := e.Value.(*ast.SequenceNode)
	if !ok {
		l.refuse(nameReplica, "", from, "replicas is a list of id, raft and api")
		return
	}
	replicas := make([]Replica, 0, len(list.Values))
	for _, item := range list.Values {
		r, ok := l.readReplica(file, item)
		if !ok {
			return
		}
		replicas = append(replicas, r)
	}
	l.config.Replicas = replicas
	l.config.sources[nameReplica] = from
}

func (l *loader) readReplica(file string, item ast.Node) (Replica, bool) {
	entries, ok := mapping(item)
	if !ok {
		l.refuse(nameReplica, item.String(), at(file, item), "an entry of replicas has id, raft and api")
		return Replica{}, false
	}
	var r Replica
	fields := map[string]*string{"id": &r.ID, "raft": &r.RaftAddr, "api": &r.APIURL}
	for _, e := range entries {
		key := e.Key.GetToken().Value
		field, ok := fields[key]
		if !ok {
			l.refuse(nameReplica, key, at(file, e.Key), "an entry of replicas has id, raft and api, and no other key")
			return Replica{}, false
		}
		value, err := scalarText(e.Value)
		if err != nil {
			l.refuse(nameReplica, key, at(file, e.Key), err.Error())
			return Replica{}, false
		}
		*field = value
	}
	return r, true
}

// mapping returns the entries of a node that is a mapping. A null counts as an empty
// mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	case *ast.NullNode, *ast.CommentGroupNode:
		return nil, true
	}
	return nil, false
}

// texts returns the text of a value, or the texts of a list if list allows one.
func texts(n ast.Node, list bool) (all []string, err error) {
	items := []ast.Node{n}
	if sequence, is := n.(*ast.SequenceNode); is && list {
		items = sequence.Values
	}
	for _, item := range items {
		text, err := scalarText(item)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// scalarText returns the text of a single value as it was written.
func scalarText(n ast.Node) (string, error) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("it has no value; leave the key out for the default")
	}
	return "", errors.New("it must be a single value")
}

func at(file string, n ast.Node) Source {
	return Source(fmt.Sprintf("%s:%d", file, n.GetToken().Position.Line))
}

// firstLine returns a syntax error without the excerpt that follows it.
func firstLine(err error) string {
	line, _, _ := strings.Cut(yaml.FormatError(err, false, false), "\n")
	return line
}
