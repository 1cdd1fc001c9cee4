//go:build !unix

package replica

func umask(mask int) int { return mask }
