// Package rehearse has a cell change its master and looks what becomes of it: the
// time without service, how near each session came to its end, whether every
// waiter kept its place.
//
// What was seen is judged by pure functions: Beforehand says whether to do it at
// all, Judge what came of it. Texts may hold words that others chose: whoever
// shows them makes them safe.
package rehearse
