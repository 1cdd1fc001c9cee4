package config

import "time"

const nameAutoReplace = "auto-replace"

func autoReplaceSetting() setting {
	return duration(nameAutoReplace, "as master, put a new directory in the place of a member's that was not heard of for so long; 0 for never", func(c *Config) *time.Duration { return &c.AutoReplace })
}

// Bounds of auto-replace. Nothing is safer for a longer one: it is time for a person
// to find the disk that is only not mounted.
const (
	leastAutoReplace = time.Second
	mostAutoReplace  = 366 * 24 * time.Hour
)

func (v *validator) autoReplace() {
	c := v.config
	switch {
	case c.AutoReplace == 0:
	case c.AutoReplace < leastAutoReplace:
		v.refuse(nameAutoReplace, c.AutoReplace.String(), "at least %s, or 0 for never; 1h gives a person time to look first", leastAutoReplace)
	case c.AutoReplace > mostAutoReplace:
		v.refuse(nameAutoReplace, c.AutoReplace.String(), "at most %s; 0 is never", mostAutoReplace)
	case c.Dev:
		v.refuse(nameAutoReplace, c.AutoReplace.String(), "contradicts dev, which is a cell of one")
	}
}
