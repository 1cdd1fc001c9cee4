package config

import (
	"fmt"

	"github.com/stoutlock/stout/internal/browser"
)

// Names of the settings for calls from web pages.
const (
	nameAllowOrigin = "allow-origin"
	nameAPIHost     = "api-host"
)

func browserSettings() []setting {
	return []setting{
		several(nameAllowOrigin, "url", "a site whose web pages may use the API, like https://ui.example.com; one for each",
			func(c *Config) *[]string { return &c.AllowOrigins }, readOrigin, same),
		several(nameAPIHost, "name", "a name by which browsers may call the API, beside those of the replicas; one for each",
			func(c *Config) *[]string { return &c.APIHosts }, readHost, same),
	}
}

func readOrigin(s string) (string, error) {
	switch s {
	case "*":
		return "", fmt.Errorf(`"*" would let every web page command the cell from its visitor's network; name the sites`)
	case "null":
		return "", fmt.Errorf(`"null" is what any web page can be made to come from; name the sites`)
	}
	o, err := browser.Parse(s)
	if err != nil {
		return "", fmt.Errorf("%q: %w", s, err)
	}
	return o.String(), nil
}

func readHost(s string) (string, error) {
	h, ok := browser.ParseHost(s)
	if !ok || h.String() != h.Name {
		return "", fmt.Errorf("%q is not the name of a host, like stout.example.com, without scheme and port; localhost and addresses need not be named", s)
	}
	return h.Name, nil
}
