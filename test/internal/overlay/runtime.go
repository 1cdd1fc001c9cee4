package overlay

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// release is the Go release that the substitutions were made for.
const release = "go1.26"

// substitution replaces a text that must occur exactly once in a file.
type substitution struct{ file, was, is string }

// substitutions cover the runtime and the other parts of the standard library
// that are random or read the real clock. Files are relative to GOROOT/src.
var substitutions = []substitution{
	{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", "j := simSelect(uint32(norder + 1))"},
	{"runtime/time.go", "t.rand = cheaprand()", "t.rand = simTimer()"},

	// A select locks its channels in the order of their addresses. If several
	// of them are timers, their order shows in how often one is queued anew.
	{"runtime/select.go", "\t\tif c.timer != nil {\n\t\t\tblockTimerChan(c)\n\t\t}\n\t}\n",
		"\t}\n\tfor _, casei := range pollorder {\n\t\tif c := scases[casei].c; c.timer != nil {\n\t\t\tblockTimerChan(c)\n\t\t}\n\t}\n"},

	// The next goroutine is drawn, undisturbed by goroutines outside the
	// bubble.
	{"runtime/proc.go", "func runqput(pp *p, gp *g, next bool) {\n", "func runqput(pp *p, gp *g, next bool) {\n\tif simTakes(gp) {\n\t\treturn\n\t}\n"},
	{"runtime/proc.go", "\t} else {\n\t\tlock(&sched.lock)\n\t\tglobrunqput(gp)\n", "\t} else if !simTakes(gp) {\n\t\tlock(&sched.lock)\n\t\tglobrunqput(gp)\n"},
	{"runtime/proc.go", "\t// local runq\n\tif gp,", "\tif gp := simPick(pp); gp != nil {\n\t\treturn gp, false, false\n\t}\n\t// local runq\n\tif gp,"},
	{"runtime/proc.go", "func runqempty(pp *p) bool {\n", "func runqempty(pp *p) bool {\n\tif simRunning != 0 {\n\t\treturn false\n\t}\n"},

	// The system monitor uses the real clock.
	{"runtime/proc.go", "} else if pd.schedwhen+forcePreemptNS <= now {", "} else if pd.schedwhen+simSlice() <= now {"},
	{"runtime/proc.go", "\t\t// Retake the P if it's there for more than 1 sysmon tick",
		"\t\tif !sysretake && simKeeps(thread.gp) {\n\t\t\tthread.resume()\n\t\t\tgoto done\n\t\t}\n\t\t// Retake the P if it's there for more than 1 sysmon tick"},
	{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n\treturn nanotime()", "func internal_sync_nanotime() int64 {\n\treturn simNanotime()"},
	{"runtime/mgc.go", "\tif !memstats.enablegc || panicking", "\tif simulated && t.kind != gcTriggerCycle || !memstats.enablegc || panicking"},

	// Time passes while a goroutine of the bubble waits for a mutex. Its holder
	// may sleep, for example as part of a paused process.
	{"runtime/runtime2.go", "\twaitReasonSyncCondWait:          true,\n", "\twaitReasonSyncCondWait:          true,\n\twaitReasonSyncMutexLock: true,\n\twaitReasonSyncRWMutexRLock: true,\n\twaitReasonSyncRWMutexLock: true,\n"},

	// Maps have fixed hashes and walks from a place that the seed determines.
	{"runtime/alg.go", "hashkey[i] = uintptr(bootstrapRand())", "hashkey[i] = uintptr(simHashKey(i))"},
	{"runtime/alg.go", "key[i] = bootstrapRand()", "key[i] = simHashKey(i)"},
	{"runtime/rand.go", "//go:linkname maps_rand internal/runtime/maps.rand\nfunc maps_rand() uint64 {\n\treturn rand()\n}\n", ""},
	{"runtime/rand.go", "func rand() uint64 {\n", "func rand() uint64 {\n\tif simApplies() {\n\t\treturn simHashSeed\n\t}\n"},
	{"internal/runtime/maps/table.go", "it.entryOffset = rand()", "it.entryOffset = simWalk()"},
	{"internal/runtime/maps/table.go", "it.dirOffset = rand()", "it.dirOffset = simWalk()"},
	{"internal/sync/hashtriemap.go", "//go:linkname runtime_rand runtime.rand", "//go:linkname runtime_rand runtime.simFixed"},

	// Programs draw these random numbers.
	{"math/rand/rand.go", "//go:linkname runtime_rand runtime.rand", "//go:linkname runtime_rand runtime.simNumber"},
	{"math/rand/v2/rand.go", "//go:linkname runtime_rand runtime.rand", "//go:linkname runtime_rand runtime.simNumber"},
	{"os/tempfile.go", "//go:linkname runtime_rand runtime.rand", "//go:linkname runtime_rand runtime.simNumber"},
	{"crypto/rand/rand.go", "\tif rand.IsDefaultReader(Reader) {\n", "\tif simRead(b) {\n\t\treturn len(b), nil\n\t}\n\tif rand.IsDefaultReader(Reader) {\n"},

	// A context's children are kept under their addresses.
	{"context/context.go", "children map[canceler]struct{} // set", "serial   uint64\n\tchildren map[canceler]uint64 // set"},
	{"context/context.go", "p.children = make(map[canceler]struct{})", "p.children = make(map[canceler]uint64)"},
	{"context/context.go", "p.children[child] = struct{}{}", "p.serial++\n\t\t\tp.children[child] = p.serial"},
	{"context/context.go", "for child := range c.children {", "for _, child := range inOrder(c.children) {"},
}

// additions are whole files that the substitutions need.
var additions = map[string]string{
	"runtime/sim.go":               "patch/runtime.go.txt",
	"internal/runtime/maps/sim.go": "patch/maps.go.txt",
	"context/sim.go":               "patch/context.go.txt",
	"crypto/rand/sim.go":           "patch/crypto.go.txt",
}

//go:embed patch
var patches embed.FS

// Runtime returns the overlay that makes a program's runs functions of their
// seeds. It fails if the Go release in use is not the supported one.
func Runtime(ctx context.Context) (Overlay, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return Overlay{}, fmt.Errorf("go env: %w", err)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return runtimeOf(filepath.Join(root, "src"), version)
}

// runtimeOf is Runtime for the standard library in src, of the given release.
func runtimeOf(src, version string) (Overlay, error) {
	var o Overlay
	for _, s := range substitutions {
		next, err := o.substitute(filepath.Join(src, filepath.FromSlash(s.file)), s.was, s.is)
		if err != nil {
			return Overlay{}, fmt.Errorf("the simulator does not support this Go release (%s): %w; use %s", version, err, release)
		}
		o = next
	}
	for file, from := range additions {
		text, err := patches.ReadFile(from)
		if err != nil {
			return Overlay{}, err
		}
		name := filepath.Join(src, filepath.FromSlash(file))
		if _, err := os.Stat(name); err == nil {
			return Overlay{}, fmt.Errorf("the simulator does not support this Go release (%s): it has a file %s of its own; use %s", version, file, release)
		}
		o = o.with(name, text)
	}
	return o, nil
}
