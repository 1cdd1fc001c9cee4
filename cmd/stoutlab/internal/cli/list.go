package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

type listed struct {
	Name   string      `json:"name"`
	Family spec.Family `json:"family"`
	Line   string      `json:"line"`
	Breaks string      `json:"breaks"`
	Kinds  []string    `json:"kinds"`
}

func (a *app) list() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the algorithms, one per line", Args: cobra.NoArgs}
	return a.command(cmd, []string{"table", "json"}, func(format string, _ []string) error {
		var all []listed
		for _, alg := range lab.Algorithms() {
			l := listed{Name: alg.Name, Family: alg.Family, Line: alg.Line, Breaks: alg.Breaks}
			for _, k := range alg.Kinds {
				l.Kinds = append(l.Kinds, k.Name)
			}
			all = append(all, l)
		}
		if format == "json" {
			return a.json(all)
		}
		w := tabwriter.NewWriter(&a.out, 0, 0, 2, ' ', 0)
		family := spec.Family("")
		for _, l := range all {
			if l.Family != family {
				if family != "" {
					fmt.Fprintln(w, "\t")
				}
				family = l.Family
				fmt.Fprintf(w, "%s\t\n", family)
			}
			fmt.Fprintf(w, "  %s\t%s\n", l.Name, l.Line)
		}
		return w.Flush()
	})
}

// json writes a value on one line.
func (a *app) json(v any) error {
	enc := json.NewEncoder(&a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
