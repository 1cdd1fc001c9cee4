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
			func(c *Config) *[]browser.Origin { return &c.AllowOrigins }, readOrigin, browser.Origin.String),
		several(nameAPIHost, "name", "a name by which browsers may call the API, beside those of the replicas; one for each",
			func(c *Config) *[]string { return &c.APIHosts }, readHost, func(s string) string { return s }),
	}
}

func readOrigin(s string) (browser.Origin, error) {
	switch s {
	case "*":
		return browser.Origin{}, fmt.Errorf(`"*" would let every web page command the cell from its visitor's network; name the sites`)
	case "null":
		return browser.Origin{}, fmt.Errorf(`"null" is what any web page can be made to come from; name the sites`)
	}
	o, err := browser.Parse(s)
	if err != nil {
		return o, fmt.Errorf("%q: %w", s, err)
	}
	return o, nil
}

func readHost(s string) (string, error) {
	h, ok := browser.ParseHost(s)
	if !ok || h.String() != h.Name {
		return "", fmt.Errorf("%q is not the name of a host, like stout.example.com, without scheme and port; localhost and addresses need not be named", s)
	}
	return h.Name, nil
}
