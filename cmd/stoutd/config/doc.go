// Package config gathers the settings of stoutd.
//
// A value comes from a flag, else from the environment, else from the file
// that --config names, else from the defaults; each remembers which it was.
// One table (settings.go) names every setting once: the flag --master-lease is
// STOUTD_MASTER_LEASE in the environment and master-lease in the file.
//
// Nothing is guessed and nothing is ignored: an unknown key of the file, an
// unknown STOUTD_ variable, a value that cannot be read and values that
// contradict each other are all refused, all of them at once, each with the
// setting, its value, where that came from and the reason.
package config
