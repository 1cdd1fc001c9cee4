// Package doctor finds out what is wrong with a cell and with a client's way to
// it. A Looker asks; what it has seen is judged by Examine, a pure function.
//
// Texts may hold words that others chose: whoever shows them makes them safe.
package doctor
