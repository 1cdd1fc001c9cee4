// Package docs reads the pages of this repository, and has tests of them: they
// are laid out alike, what they point to is there, and what they show is run.
package docs
