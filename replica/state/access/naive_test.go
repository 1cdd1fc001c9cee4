package access_test

import (
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state/access"
)

// naive decides as the package comment says it, in the slowest way: it knows
// maps and loops, and nothing of trees and of what groups are in.
type naive struct {
	rules            map[string]map[access.Permission][]string
	groups           map[string][]string
	observe, operate []string
}

func newNaive() *naive {
	return &naive{rules: map[string]map[access.Permission][]string{}, groups: map[string][]string{}}
}

// in reports whether a list has a principal; path are the groups on the way.
func (n *naive) in(principal string, list []string, path ...string) bool {
	for _, entry := range list {
		group, isGroup := strings.CutPrefix(entry, "group:")
		switch {
		case entry == principal:
			return true
		case entry == "*" && principal != "anonymous":
			return true
		case isGroup && !slices.Contains(path, group) && n.in(principal, n.groups[group], append(path, group)...):
			return true
		}
	}
	return false
}

func (n *naive) operates(principal string) bool {
	return principal == "user:root" || n.in(principal, n.operate)
}

// may is a decision and the path of the rule that made it, empty for none.
func (n *naive) may(principal string, p access.Permission, path string) (bool, string) {
	if n.operates(principal) {
		return true, ""
	}
	for at := path; ; {
		if list, named := n.rules[at][p]; named {
			return n.in(principal, list), at
		}
		if at == "/" {
			return false, ""
		}
		if at = at[:strings.LastIndexByte(at, '/')]; at == "" {
			at = "/"
		}
	}
}

// mayBelow looks at every path that a rule stands at.
func (n *naive) mayBelow(principal string, p access.Permission, dir string) bool {
	allowed, _ := n.may(principal, p, dir)
	for at := range n.rules {
		if strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/") {
			here, _ := n.may(principal, p, at)
			allowed = allowed && here
		}
	}
	return allowed
}

// circle reports whether a group with these members would be in itself.
func (n *naive) circle(group string, members []string) bool {
	before, there := n.groups[group]
	n.groups[group] = members
	defer func() {
		if n.groups[group] = before; !there {
			delete(n.groups, group)
		}
	}()
	return n.reaches(group, group, map[string]bool{})
}

func (n *naive) reaches(from, to string, seen map[string]bool) bool {
	for _, m := range n.groups[from] {
		name, isGroup := strings.CutPrefix(m, "group:")
		if !isGroup || seen[name] {
			continue
		}
		seen[name] = true
		if name == to || n.reaches(name, to, seen) {
			return true
		}
	}
	return false
}
