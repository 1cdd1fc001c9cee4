package top

// mayStop returns false: programs cannot be stopped on Windows.
func mayStop() bool { return false }
