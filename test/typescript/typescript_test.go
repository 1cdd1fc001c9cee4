package typescript

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/docs"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

func TestMain(m *testing.M) { os.Exit(testrun.Main(m.Run)) }

const source = "client/typescript"

// project makes a directory of a program that uses the package, which is copied
// to the same place below it. Without node and npm the test is skipped.
func project(t *testing.T) (dir, own string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	root, err := cell.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	own = filepath.Join(dir, source)
	err = filepath.WalkDir(filepath.Join(root, source), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "node_modules" {
			return fs.SkipDir
		}
		to := filepath.Join(own, strings.TrimPrefix(name, filepath.Join(root, source)))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		content, err := os.ReadFile(name)
		return errors.Join(err, os.WriteFile(to, content, 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "package.json"), `{"name": "program", "type": "module", "private": true}`)
	return dir, own
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a program in a directory, and returns its output.
func run(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// examples returns the blocks of the README: the command that installs the
// package, and the programs.
func examples(t *testing.T) (install string, programs []docs.Block) {
	t.Helper()
	blocks, err := docs.Blocks("../..", source+"/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		switch {
		case b.By != "test/typescript TestExamples":
			t.Errorf("%s: no test runs the block", b.Place())
		case b.Lang == "sh":
			install += b.Text
		case b.Lang == "js":
			programs = append(programs, b)
		}
	}
	if install == "" || len(programs) != 5 {
		t.Fatalf("the README has the command %q and %d programs; it must have a command and 5 programs", install, len(programs))
	}
	return install, programs
}

// TestExamples: the package is installed as the README shows it, and each
// example prints on a real cell what the comment above it lists.
func TestExamples(t *testing.T) {
	t.Parallel()
	install, programs := examples(t)
	dir, _ := project(t)
	run(t, dir, nil, "sh", "-ec", install)
	token := filepath.Join(dir, "token")
	put(t, token, "stout_"+strings.Repeat("k", 43)+"\n")
	plain := cell.New(t, cell.Options{})
	secure := cell.New(t, cell.Options{Secure: true, RootToken: token})
	for i, b := range programs {
		name := fmt.Sprintf("example%d.js", i+1)
		put(t, filepath.Join(dir, name), b.Text)
		env := []string{"STOUT_URL=" + plain.URLs()[i%3]}
		if strings.Contains(b.Text, "STOUT_CA_CERT") {
			env = []string{"STOUT_URL=" + secure.URLs()[i%3], "STOUT_CA_CERT=" + secure.Cert("ca.pem"), "STOUT_AUTH_TOKEN_FILE=" + token}
		}
		if len(b.Says) == 0 {
			t.Errorf("%s: the comment above does not list what it prints", b.Place())
		}
		rest := run(t, dir, env, "node", name)
		for _, line := range b.Says {
			_, after, found := strings.Cut(rest, line)
			if !found {
				t.Errorf("%s: it printed %q, without %q in its place", b.Place(), rest, line)
			}
			rest = after
		}
	}
}

// TestTypes: the sources and the README's examples pass a strict compiler, and
// the committed declarations are up to date.
func TestTypes(t *testing.T) {
	t.Parallel()
	_, programs := examples(t)
	dir, own := project(t)
	run(t, own, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	tsc := filepath.Join(own, "node_modules", ".bin", "tsc")
	run(t, own, nil, tsc)

	types := filepath.Join(own, "types")
	committed := read(t, types)
	if err := os.RemoveAll(types); err != nil {
		t.Fatal(err)
	}
	run(t, own, nil, "npm", "run", "--silent", "types")
	made := read(t, types)
	for name := range made {
		if !bytes.Equal(committed[name], made[name]) {
			t.Errorf("%s/types/%s is out of date: npm run types", source, name)
		}
		delete(committed, name)
	}
	for name := range committed {
		t.Errorf("%s/types/%s has no source: delete it", source, name)
	}

	for i, b := range programs {
		put(t, filepath.Join(dir, fmt.Sprintf("example%d.js", i+1)), b.Text)
	}
	put(t, filepath.Join(dir, "using.ts"), using)
	put(t, filepath.Join(dir, "tsconfig.json"), `{"compilerOptions": {
		"allowJs": true, "checkJs": true, "strict": true, "noEmit": true, "skipLibCheck": false, "exactOptionalPropertyTypes": true,
		"target": "es2022", "lib": ["es2022", "esnext.disposable"], "module": "nodenext",
		"types": ["node"], "typeRoots": ["client/typescript/node_modules/@types"], "maxNodeModuleJsDepth": 0},
		"include": ["*.js", "*.ts"]}`)
	run(t, dir, nil, "npm", "install", "--no-audit", "--no-fund", "./"+source)
	run(t, dir, nil, tsc)
	put(t, filepath.Join(dir, "wrong.ts"), "import { Client } from \"@stoutlock/client\";\nconst ttl: string = new Client(\"h:1\").urls;\nvoid ttl;\n")
	cmd := exec.CommandContext(t.Context(), tsc)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "wrong.ts") {
		t.Errorf("the compiler accepts a program with a wrong type: %v\n%s", err, out)
	}
}

// using is a TypeScript program that Node 20 cannot run.
const using = `import { Client, type Held, type State, StoutError } from "@stoutlock/client";

export async function main(cell: Client): Promise<number> {
	await using session = await cell.openSession({ ttl: 5_000 });
	session.on("state", (state: State) => console.log(state));
	session.on("event", (event) => console.log(event.type, event.path));
	await using held: Held = await session.lock("/a", { wait: 100 });
	for await (const file of cell.files.list("/a", { contents: true })) console.log(file.path, file.content?.length);
	try {
		await session.files.put("/a", new Uint8Array(3), { while: held, returnCurrent: true });
	} catch (err) {
		if (err instanceof StoutError && err.code === "precondition_failed") console.log(err.problem?.current?.revision);
	}
	return session.withLock("/b", (other, signal) => (signal.aborted ? 0 : other.token));
}
`

// read returns the files of a directory by name.
func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = content
	}
	return files
}

// TestOwn runs the package's own tests, which need no cell.
func TestOwn(t *testing.T) {
	t.Parallel()
	_, own := project(t)
	out := run(t, own, nil, "npm", "test")
	if !strings.Contains(out, "# pass ") || strings.Contains(out, "# pass 0") || !strings.Contains(out, "# skipped 0") {
		t.Errorf("the tests were not run:\n%s", out)
	}
}
