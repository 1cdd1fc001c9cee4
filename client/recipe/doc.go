// Package recipe has common patterns built from locks, files and events:
//
//	Hold                      a lock for as long as the program runs
//	Campaign, Lead, Observe   election of a leader that publishes its address
//	Join, Stay, Members       the members of a group, and their changes
//	Config                    a typed value that follows a file
//	Raise, Await, Meet        barriers
//	Queue                     jobs, each run by one worker at a time
//	EachPeriod                a job that one of many machines runs
//	Shards                    n shards of work, divided over a group
//
// Each is short and uses only the exported parts of package client: read it
// before you use it, and copy it if it does not fit. docs/recipes.md describes
// the failures of each, how it handles them, and what is left to the caller.
//
// A function that runs until its context ends takes a Client: it opens a session
// of its own, and another one when that ends. A function that acts once takes
// the caller's Session.
//
// Package fence has the counterpart at the resource: guards that refuse the
// token of an earlier holder.
//
// A function's effect through a session is exactly as good as the session: it
// ends, or is released, when the session does.
package recipe
