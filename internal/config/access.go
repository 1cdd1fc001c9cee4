package config

// Names of the settings about who may do what.
const (
	nameFoundToken    = "found-token-file"
	nameBreakGlass    = "break-glass-token-file"
	namePublicMetrics = "public-metrics"
)

func accessSettings() []setting {
	return []setting{
		text(nameFoundToken, "file", "found the cell with access on; the file has the secret of user:root, the same on every replica", func(c *Config) *string { return &c.FoundTokenFile }),
		text(nameBreakGlass, "file", "the file has a secret that is user:root in calls to this replica while it is master", func(c *Config) *string { return &c.BreakGlassTokenFile }),
		boolean(namePublicMetrics, "show /metrics to everybody, also while access is on", func(c *Config) *bool { return &c.PublicMetrics }),
	}
}
