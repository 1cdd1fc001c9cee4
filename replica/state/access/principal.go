package access

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A principal is a known user, written as user: and a name, or Anonymous. A
// list may also contain groups and AllPrincipals.
const (
	Root          = "user:root" // may always do everything
	Anonymous     = "anonymous" // a caller without a valid credential
	AllPrincipals = "*"         // in a list: every known principal

	userPrefix  = "user:"
	groupPrefix = "group:"
)

// Bounds of a policy. They are wide, because principals that may change it are
// trusted.
const (
	MaxName    = 256    // bytes of the name of a user or a group
	MaxEntries = 1000   // in a list, and in a group
	MaxRules   = 50_000 // in a policy
	MaxGroups  = 4096
	MaxReach   = 1 << 20 // entries of all lists of groups of a principal or group; it also bounds the work of a change
)

// Group returns the form in which a list names a group.
func Group(name string) string { return groupPrefix + name }

// IsUser reports whether a principal is known: user: and a valid name.
func IsUser(principal string) bool {
	name, ok := strings.CutPrefix(principal, userPrefix)
	return ok && IsName(name)
}

// IsName reports whether a user or a group can have this name: 1 to MaxName
// bytes of UTF-8 without control characters.
func IsName(name string) bool {
	return name != "" && len(name) <= MaxName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// IsMember reports whether a group may have this member: a known principal or a
// group.
func IsMember(entry string) bool {
	name, ok := strings.CutPrefix(entry, groupPrefix)
	return ok && IsName(name) || IsUser(entry)
}

// IsEntry reports whether a list may have this entry: a member, AllPrincipals or
// Anonymous.
func IsEntry(entry string) bool {
	return entry == AllPrincipals || entry == Anonymous || IsMember(entry)
}

// sound reports whether a list is within its bounds and has only valid entries.
func sound(list []string, valid func(string) bool) bool {
	if len(list) > MaxEntries {
		return false
	}
	for _, entry := range list {
		if !valid(entry) {
			return false
		}
	}
	return true
}
