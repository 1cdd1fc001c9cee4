package top

// mayStop: there programs can't be stopped.
func mayStop() bool { return false }
