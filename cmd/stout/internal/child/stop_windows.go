package child

// MayStop returns false: programs cannot be stopped on Windows.
func MayStop() bool { return false }
