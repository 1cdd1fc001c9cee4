package config

import (
	"fmt"
	"strings"
)

// Problem is one reason to refuse a configuration.
type Problem struct {
	// Field is the setting, or the unknown key or variable.
	Field string
	// Value is what was given, as it would be written; empty where nothing was.
	Value string
	// Source is where the value came from.
	Source Source
	// Reason says what is wrong and what would be right.
	Reason string

	missing bool // nobody gave a value that is required
}

// String is one line: field "value" (source): reason.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Field)
	if p.Value != "" {
		fmt.Fprintf(&b, " %q", p.Value)
	}
	if p.Source != "" && !(p.missing && p.Source == SourceDefault) {
		fmt.Fprintf(&b, " (%s)", p.Source)
	}
	b.WriteString(": " + p.Reason)
	return b.String()
}

// Problems is the error of Load: everything that is wrong, at least one.
type Problems []Problem

// Error is one line for a single problem, else a heading and a line for each.
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

// err is nil where there is no problem, so that a nil error stays nil.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}
