package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// pipelines are faults of how entries are sent without waiting for answers.
func pipelines() []Mutant {
	return []Mutant{
		{"pipeline-unchecked", "Raft must be Raft", "what leaves through a pipeline is checked as all messages are",
			"a master that was cut off has an entry that never was committed; its successor sends more through a pipeline than it vouches for, or than it has on disk",
			overlay.Edit{File: "replica/pipeline.go",
				Old: "if err := p.check(q); err != nil {",
				New: "if err := error(nil); err != nil {"}},
		{"pipeline-stops-for-ever", "Raft must be Raft", "a pipeline ends with its first failure",
			"a follower refuses a message while another is on its way, and a third is sent before the library looks at that",
			overlay.Edit{File: "replica/pipeline.go",
				Old: "return f.Error() != nil || !a.Success || a.Term > f.Request().Term",
				New: "return f.Error() != nil && !a.Success"}},
	}
}
