package access

import (
	"slices"
	"strings"
)

// Permission is a right that a rule can grant at a path.
type Permission uint8

// The permissions. Their numbers are written to disk.
const (
	Read  Permission = 1 // see what exists
	Lock  Permission = 2 // acquire and wait
	Write Permission = 3 // create, write and delete files
	Admin Permission = 4 // change rules, and release the locks of others
)

// Permissions lists all permissions.
var Permissions = [...]Permission{Read, Lock, Write, Admin}

func (p Permission) valid() bool { return p >= Read && p <= Admin }

func (p Permission) String() string {
	if p.valid() {
		return [...]string{"", "read", "lock", "write", "admin"}[p]
	}
	return "none"
}

// Rule gives permissions at a path and below it. It is immutable.
type Rule struct {
	Path string `cbor:"1,keyasint"` // "/" for the root
	// Lists maps each permission to its list. A missing permission is
	// inherited.
	Lists map[Permission][]string `cbor:"2,keyasint,omitempty"`
	// Principal is the principal that set the rule; empty if unknown. It
	// decides nothing.
	Principal string `cbor:"3,keyasint,omitempty"`
}

// Sound reports whether the rule is valid.
func (r *Rule) Sound() bool {
	if !soundPath(r.Path) || r.Principal != "" && !IsUser(r.Principal) || len(r.Lists) > len(Permissions) {
		return false
	}
	named := 0
	for _, p := range Permissions {
		list, ok := r.Lists[p]
		if ok && (list == nil || !sound(list, IsEntry)) {
			return false
		}
		if ok {
			named++
		}
	}
	return named == len(r.Lists)
}

// Same reports whether two rules have the same path and lists, in the same
// order. It ignores Principal.
func (r *Rule) Same(other *Rule) bool {
	if r.Path != other.Path || len(r.Lists) != len(other.Lists) {
		return false
	}
	for _, p := range Permissions {
		a, named := r.Lists[p]
		b, too := other.Lists[p]
		if named != too || !slices.Equal(a, b) {
			return false
		}
	}
	return true
}

// namesAnonymous reports whether a list of the rule contains Anonymous.
func (r *Rule) namesAnonymous() bool {
	for _, p := range Permissions {
		if slices.Contains(r.Lists[p], Anonymous) {
			return true
		}
	}
	return false
}

// soundPath reports whether a rule can have this path: the root, or segments
// that are not empty. The API is far stricter.
func soundPath(path string) bool {
	return path == "/" || strings.HasPrefix(path, "/") && !strings.HasSuffix(path, "/") &&
		!strings.Contains(path, "//") && strings.IndexByte(path, 0) < 0
}

// list is a list of a rule, prepared for searching.
type list struct {
	everybody, anonymous bool
	users, groups        []string // sorted; groups by their names
}

// ready prepares a list for searching.
func ready(entries []string) *list {
	l := new(list)
	for _, entry := range entries {
		name, isGroup := strings.CutPrefix(entry, groupPrefix)
		switch {
		case entry == AllPrincipals:
			l.everybody = true
		case entry == Anonymous:
			l.anonymous = true
		case isGroup:
			l.groups = append(l.groups, name)
		default:
			l.users = append(l.users, entry)
		}
	}
	slices.Sort(l.users)
	slices.Sort(l.groups)
	return l
}

// has reports whether the list contains a principal, directly or by one of its
// groups.
func (l *list) has(principal string, groups []string) bool {
	if l == nil {
		return false
	}
	if principal == Anonymous {
		return l.anonymous
	}
	if l.everybody {
		return true
	}
	_, found := slices.BinarySearch(l.users, principal)
	return found || meet(l.groups, groups)
}

// meet reports whether two sorted lists have a common element. It searches the
// longer list for each element of the shorter.
func meet(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	for _, name := range a {
		i, found := slices.BinarySearch(b, name)
		if found {
			return true
		}
		b = b[i:]
	}
	return false
}
