// Package access decides who may do what in a cell: by rules at paths, groups
// of principals, and two lists for the cell as a whole.
//
// A rule stands at a path and holds for that node and all below it, by
// segments: one at /a says nothing of /ab. It names some of four permissions
// and gives a list for each. For each permission the nearest rule upward that
// names it decides, alone: an empty list there is nobody, whatever stands
// above. Where no rule names it, it is nobody's. Whoever is in the list operate
// may do everything, without a rule, and user:root always is.
//
// A *Policy is immutable, and nothing in here has a clock or does I/O: a change
// makes another Policy, which shares what is the same. A decision walks the
// segments of one path and looks into the lists of one rule. It takes as long
// with ten thousand rules and a thousand groups as with one (policy_test.go has
// the benchmark).
package access
