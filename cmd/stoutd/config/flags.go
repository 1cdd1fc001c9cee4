package config

import "github.com/spf13/pflag"

// Flags are the command-line flags of every setting. Parsing only records the texts.
// Load reads them, and reports a bad one together with all other problems.
type Flags struct {
	given map[string][]string
}

// AddFlags adds --config, and a flag for every setting, to fs.
func AddFlags(fs *pflag.FlagSet) *Flags {
	f := &Flags{given: map[string][]string{}}
	fs.Var(&flagValue{flags: f, name: nameConfig, kind: "file"}, nameConfig, "YAML file of settings; the keys are the flags' names, with a list replicas for replica")
	for _, s := range settings(Default()) {
		flag := fs.VarPF(&flagValue{flags: f, name: s.name, kind: s.kind, unset: s.get()}, s.name, "", s.usage())
		if s.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	return f
}

// flagValue records the texts given for one flag.
type flagValue struct {
	flags *Flags
	name  string
	kind  string
	unset string // the default, for the help
}

func (v *flagValue) Set(text string) error {
	v.flags.given[v.name] = append(v.flags.given[v.name], text)
	return nil
}

func (v *flagValue) String() string { return v.unset }

func (v *flagValue) Type() string { return v.kind }
