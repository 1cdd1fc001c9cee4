// Package docs has tests of what people read: the pages of this repository are
// laid out alike, and what they point to is there.
package docs
