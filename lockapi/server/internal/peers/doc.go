// Package peers is how a member reaches the other members of its cell, and what it
// learns of them: the connections that calls travel over, short questions, when each
// last answered and how fast its clock runs, and whether a replica that has a forwarded
// call is still the master.
//
// It knows neither routes nor callers. Which calls are forwarded, and what becomes of an
// answer that was lost, is package server's.
package peers
