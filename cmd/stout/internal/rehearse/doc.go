// Package rehearse changes the master of a cell and measures the effect: the
// time without service, how near each session came to its end, and whether each
// waiter kept its queue position.
//
// Pure functions evaluate the observations: Assess decides whether to
// begin, Evaluate rates the result. Texts may contain foreign words: the caller
// must make them safe before it prints them.
package rehearse
