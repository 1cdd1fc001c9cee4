// Package access decides which principals may do what in a cell. It knows rules
// at paths, groups of principals, and two lists for the cell as a whole.
//
// A rule is set at a path and holds for that node and all nodes below it, by
// segments: a rule at /a does not cover /ab. It names some of four permissions
// and gives a list for each. The nearest rule upward that names a permission
// decides alone. An empty list there denies everyone, regardless of the rules
// above. A permission that no rule names is denied. A principal in the list
// operate may do everything, without a rule; user:root always may.
//
// A *Policy is immutable, and the package has no clock and no I/O. A change
// makes another Policy, which shares all unchanged parts. A decision walks the
// segments of one path and searches the lists of one rule. It takes as long
// with ten thousand rules and a thousand groups as with one (policy_test.go has
// the benchmark).
package access
