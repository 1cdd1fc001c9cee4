package access

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Who calls is a principal: a known one, which is user: and a name, or
// Anonymous. A list may also have groups and Everybody.
const (
	Root      = "user:root" // may always do everything
	Anonymous = "anonymous" // whoever has not proved who he is
	Everybody = "*"         // in a list: everybody who is known

	userPrefix  = "user:"
	groupPrefix = "group:"
)

// Bounds of what a policy keeps. They are wide: who may change it is trusted.
const (
	MaxName    = 256    // bytes of the name of a user or a group
	MaxEntries = 1000   // in a list, and in a group
	MaxRules   = 50_000 // in all
	MaxGroups  = 4096
	maxReach   = 1 << 20 // entries of all lists of what groups somebody is in: it bounds the work of a change, too
)

// User is the principal of a name.
func User(name string) string { return userPrefix + name }

// Group is how a list names a group.
func Group(name string) string { return groupPrefix + name }

// IsUser reports whether a principal is known: user: and a name that can be
// one.
func IsUser(principal string) bool {
	name, ok := strings.CutPrefix(principal, userPrefix)
	return ok && IsName(name)
}

// IsName reports whether a user or a group can be called so: 1 to MaxName bytes
// of UTF-8 without control characters.
func IsName(name string) bool {
	return name != "" && len(name) <= MaxName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// IsMember reports whether a group may have it: a known principal or a group.
func IsMember(entry string) bool {
	name, ok := strings.CutPrefix(entry, groupPrefix)
	return ok && IsName(name) || IsUser(entry)
}

// IsEntry reports whether a list may have it: a member, Everybody or Anonymous.
func IsEntry(entry string) bool {
	return entry == Everybody || entry == Anonymous || IsMember(entry)
}

// sound reports whether a list is within its bounds and has only what is fine.
func sound(list []string, fine func(string) bool) bool {
	if len(list) > MaxEntries {
		return false
	}
	for _, entry := range list {
		if !fine(entry) {
			return false
		}
	}
	return true
}
