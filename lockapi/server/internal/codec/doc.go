// Package codec decodes the JSON bodies of requests and encodes the bodies of
// replies, by the rules of the contract: it refuses what it does not know, and
// names the field.
//
// It knows neither calls nor connections. Package server decides which value a
// body becomes.
package codec
