package snapshots

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestGoldenHead: the head of a snapshot's file is part of a data directory's
// format. A change of it must not go unnoticed.
func TestGoldenHead(t *testing.T) {
	got, err := headOf(&raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: "2-7-1700000000000", Index: 7, Term: 2, ConfigurationIndex: 3,
		Configuration: raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Nonvoter, ID: "r1/0123456789abcdef", Address: "r1/0123456789abcdef@10.0.0.1:7201"}}},
	})
	must(t, err)
	const want = "\x00\x00\x00\xc7" + `{"version":1,"id":"2-7-1700000000000","index":7,"term":2,"configuration":{"Servers":[{"Suffrage":1,"ID":"r1/0123456789abcdef","Address":"r1/0123456789abcdef@10.0.0.1:7201"}]},"configuration_index":3}`
	if string(got) != want {
		t.Errorf("it is\n%q and was\n%q", got, want)
	}
}
