package config

import (
	"strings"
	"testing"
)

// TestAuditRefusals: settings of an audit log that does not exist, or cannot be put
// aside, are refused.
func TestAuditRefusals(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--audit-changes"}, "give audit-log as well"},
		{[]string{"--audit-required"}, "give audit-log as well"},
		{[]string{"--audit-max-size=1MiB"}, "give audit-log as well"},
		{[]string{"--audit-keep=1"}, "give audit-log as well"},
		{[]string{"--audit-log=-", "--audit-max-size=1MiB"}, "standard output"},
		{[]string{"--audit-log=a", "--audit-max-size=1000"}, "at least 1MiB"},
		{[]string{"--audit-log=a", "--audit-max-size=1500KiB"}, "whole number of MiB"},
		{[]string{"--audit-log=a", "--audit-keep=3"}, "audit-max-size"},
		{[]string{"--audit-log=a", "--audit-max-size=1MiB", "--audit-keep=10001"}, "at most 10000"},
	} {
		_, err := load(t, cell(c.args...))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "audit-") {
			t.Errorf("%q: %v; want %q", c.args, err, c.want)
		}
	}
}
