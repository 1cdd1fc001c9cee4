// Package fence has guards for the receiving side of a lock: the resource that
// the lock protects. A guard refuses a token lower than the highest that it has
// seen for the resource.
//
//	SQL       tables of a database: one more statement in the transaction
//	Handler   a service behind net/http: a header of each request
//	Objects   an object store with conditional writes
//
// A client may pause just before a write, lose its lock, and send the write
// when it wakes. No lock service can prevent that; the resource can, because
// the cell gives each grant a higher token than every earlier one. The holder
// sends Held.Token with each write, and the guard returns ErrStale for a late
// one.
//
// A guard has to make the check and the write one step. A check before the
// write is not enough: the late write may have passed it when the next holder
// begins. SQL locks the resource's row until the transaction ends. Handler
// waits until requests with lower tokens have ended. Objects writes only if the
// object is as it was when its token was read.
//
// A resource has a name, for example the path of its lock. It belongs to one
// cell for ever: the tokens of two cells cannot be compared. The guards believe
// the token, and a false high one shuts out every holder. Therefore only callers
// that may take the lock should reach a guard.
//
// The package needs the standard library only.
package fence
