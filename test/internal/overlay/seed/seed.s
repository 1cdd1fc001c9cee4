//go:build simulated

// This file lets seed.go declare a function that the runtime has the body of.
