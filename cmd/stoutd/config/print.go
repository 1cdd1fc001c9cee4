package config

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
)

// WriteTable writes each setting, its value and source, in aligned columns. Each value
// of a list has its own line.
func (c *Config) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "SETTING\tVALUE\tSOURCE")
	for _, s := range settings(c) {
		from := c.Source(s.name)
		values := []string{c.shown(s)}
		if s.list != nil && s.get() != "" {
			values = s.list()
		}
		for _, v := range values {
			fmt.Fprintf(t, "%s\t%s\t%s\n", s.name, v, from)
		}
	}
	return t.Flush()
}

func (c *Config) shown(s setting) string {
	value := s.get()
	switch {
	case s.name == nameDataDir && c.Dev && value == "":
		return "(temporary)"
	case value == "":
		return "-"
	}
	return value
}

// WriteYAML writes the settings as a file for --config, with the same values. The
// comments have their sources.
func (c *Config) WriteYAML(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, s := range settings(c) {
		value, from := s.get(), c.Source(s.name)
		switch {
		case value == "", from == sourceDev:
		case s.name == nameReplica:
			fmt.Fprintf(b, "%s: # %s\n", fileReplicas, from)
			for _, r := range c.Replicas {
				fmt.Fprintf(b, "  - id: %s\n    raft: %s\n    api: %s\n", quoted(r.ID), quoted(r.RaftAddr), quoted(r.APIURL))
			}
		case s.list != nil:
			fmt.Fprintf(b, "%s: # %s\n", s.name, from)
			for _, v := range s.list() {
				fmt.Fprintf(b, "  - %s\n", quoted(v))
			}
		default:
			if s.text {
				value = quoted(value)
			}
			fmt.Fprintf(b, "%s: %s # %s\n", s.name, value, from)
		}
	}
	return b.Flush()
}

// quoted returns a text as a YAML scalar, quoted if necessary.
func quoted(s string) string {
	text, err := yaml.Marshal(s)
	if err != nil {
		return fmt.Sprintf("%q", s)
	}
	return strings.TrimSuffix(string(text), "\n")
}
