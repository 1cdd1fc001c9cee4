package monitoring

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// TestClientAlarms: the expressions of docs/monitoring-clients.md are PromQL over metrics
// of client/promstout.
func TestClientAlarms(t *testing.T) {
	page, err := os.ReadFile("../../docs/monitoring-clients.md")
	must(t, err)
	source, err := os.ReadFile("../../client/promstout/promstout.go")
	must(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([^`]*stout_client[^`]* [<>=]+ [^`]*)` \\|").FindAllSubmatch(page, -1)
	if len(rows) < 5 {
		t.Errorf("only %d expressions were found", len(rows))
	}
	for _, row := range rows {
		parsed, err := promql.ParseExpr(string(row[1]))
		if err != nil {
			t.Errorf("%s: %v", row[1], err)
			continue
		}
		parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok {
				name := strings.TrimSuffix(strings.TrimSuffix(s.Name, "_bucket"), "_count")
				if !strings.Contains(string(source), `"`+name+`"`) {
					t.Errorf("%s: client/promstout has no metric %s", row[1], name)
				}
			}
			return nil
		})
	}
}
