package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// pipelines are faults of how entries are sent without waiting for answers.
func pipelines() []Mutant {
	return []Mutant{
		{"pipeline-unchecked", "Raft must be Raft", "what leaves through a pipeline is checked as all messages are",
			"a master that was cut off has an entry that never was committed; its successor sends more through a pipeline than it vouches for, or than it has on disk",
			overlay.Edit{File: "replica/rafttransport/pipeline.go",
				Old: "if err := p.check(q); err != nil {",
				New: "if err := error(nil); err != nil {"}},
	}
}
