package config

import (
	"fmt"
	"strings"
)

// Problem is one reason to refuse a configuration.
type Problem struct {
	// Field is the setting, or the unknown key or variable.
	Field string
	// Value is the text of the value; empty if no value was given.
	Value string
	// Source is the source of the value.
	Source Source
	// Reason describes the fault and the valid values.
	Reason string

	missing bool // a required value was not given
}

// String returns one line: field "value" (source): reason.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Field)
	if p.Value != "" {
		fmt.Fprintf(&b, " %q", p.Value)
	}
	if p.Source != "" && !(p.missing && strings.HasPrefix(string(p.Source), string(SourceDefault))) {
		fmt.Fprintf(&b, " (%s)", p.Source)
	}
	b.WriteString(": " + p.Reason)
	return b.String()
}

// Problems is the error of Load. It has all problems, at least one.
type Problems []Problem

// Error returns one line for a single problem, else a heading and a line for each.
func (p Problems) Error() string {
	if len(p) == 1 {
		return p[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d settings are wrong:", len(p))
	for _, one := range p {
		b.WriteString("\n  " + one.String())
	}
	return b.String()
}

// err returns nil, not an empty Problems, if there is no problem.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}
