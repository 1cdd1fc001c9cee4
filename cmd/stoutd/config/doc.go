// Package config gathers the settings of stoutd.
//
// A value comes from a flag, else from the environment, else from the file of
// --config, else from the defaults. Config.Source returns which.
//
// One table (settings.go) has a row for each setting: name, field, default, bounds
// and help. A name is the same everywhere: the flag --master-lease is
// STOUTD_MASTER_LEASE in the environment and master-lease in the file.
//
// Load refuses an unknown key of the file, an unknown STOUTD_ variable, an
// unreadable value and values that contradict each other. It reports all problems
// at once, each with the setting, the value, its source and the reason.
package config
