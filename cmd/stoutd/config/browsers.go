package config

import (
	"fmt"

	"github.com/stoutlock/stout/internal/browser"
)

func readOrigin(s string) (string, error) {
	switch s {
	case "*":
		return "", fmt.Errorf(`"*" would let every web page send commands to the cell from its visitor's network; name the sites`)
	case "null":
		return "", fmt.Errorf(`any web page can have the origin "null"; name the sites`)
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
