package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// pipelines are faults of sending entries without waiting for answers.
func pipelines() []Mutant {
	return []Mutant{
		{"pipeline-unchecked", "Raft must be Raft", "messages in a pipeline are checked like all others",
			"a master that was cut off has an entry that was never committed; its successor sends more through a pipeline than it vouches for, or than it has on disk",
			overlay.Edit{File: "replica/rafttransport/pipeline.go",
				Old: "if err := p.check(q); err != nil {",
				New: "if err := error(nil); err != nil {"}},
	}
}
