//go:build !unix

package datadir

func umask(mask int) int { return mask }
