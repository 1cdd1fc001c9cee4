package main

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// subject matches "packages: imperative" with a small letter after the colon,
// without a second change after a semicolon and without a full stop.
var subject = regexp.MustCompile(`^[.A-Za-z0-9][\w./, *-]*: [a-z][\w-]*[^;]*[^.;]$`)

// notImperative matches a first word that is not an imperative.
var notImperative = regexp.MustCompile(`^(?:an?|the|no|some|all|each|every|\w+ing|\w+ed|\w+[^s]s)$`)

// checkSubject returns what is wrong with the first line of a commit, or "".
func checkSubject(s string) string {
	if strings.HasPrefix(s, "Merge ") || strings.HasPrefix(s, "Revert ") {
		return ""
	}
	if !subject.MatchString(s) {
		return `want "package: imperative", one change, without a full stop`
	}
	_, what, _ := strings.Cut(s, ": ")
	first, _, _ := strings.Cut(what, " ")
	if notImperative.MatchString(first) && !slices.Contains([]string{"embed", "need", "feed", "bring", "focus", "alias"}, first) {
		return fmt.Sprintf("%q is not an imperative: want add, fix, remove, …", first)
	}
	return ""
}

func checkCommits(base string, out io.Writer) error {
	if err := exec.Command("git", "cat-file", "-e", base+"^{commit}").Run(); err != nil {
		fmt.Fprintf(out, "prose: commit %s is not in this clone: subjects are not checked\n", base)
		return nil
	}
	log, err := exec.Command("git", "log", "--format=%h %s", base+"..HEAD").Output()
	if err != nil {
		return fmt.Errorf("git log %s..HEAD: %w", base, err)
	}
	wrong := 0
	for line := range strings.Lines(string(log)) {
		hash, s, _ := strings.Cut(strings.TrimSpace(line), " ")
		if why := checkSubject(s); why != "" {
			fmt.Fprintf(out, "%s %s: %s\n", hash, s, why)
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("prose: %d subjects of commits since %s do not name one change in the imperative", wrong, base)
	}
	return nil
}
