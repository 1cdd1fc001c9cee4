// Package peers lets a member call the other members of its cell, and collects
// what it learns about them. It provides the connections for calls and short
// questions, and lets calls share an answer. It records when each member last
// answered and how fast its clock runs, and checks whether a replica with a
// forwarded call is still the master.
//
// It knows neither routes nor callers. Package server decides which calls are
// forwarded, and handles lost answers.
package peers
