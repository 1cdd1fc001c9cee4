// Package recipe has what programs most often build of locks, files and events:
//
//	Campaign, Lead, Observe   election of a leader that says where it is
//	Join, Stay, Members       who is there, and hearing of it
//	Config                    a typed value that follows a file
//	Raise, Await, Meet        barriers
//	Queue                     jobs, each done by one worker at a time
//	EachPeriod                a job that many machines know and one does
//
// Each is short and uses nothing but the exported parts of package client: read
// it before you use it, and copy it where it does not fit. docs/recipes.md tells
// for each what can go wrong, and why it does not, or what is left to the
// caller.
//
// What a function does by a session is exactly as good as that: it ends, or is
// given back, when the session does.
package recipe
