package httpapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/oapi-codegen/runtime" // the generated client imports it

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

// TestAClientGeneratedInTypeScriptCallsEveryOperation makes types of the contract by openapi-typescript with its default options,
// compiles a client strictly, and calls the nine operations of the specification.
func TestAClientGeneratedInTypeScriptCallsEveryOperation(t *testing.T) {
	t.Parallel()
	a, folder, packages := newAPI(t), t.TempDir(), testenv.Get(t, testenv.NPM)
	check.NoError(t, os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(folder, "node_modules")))
	write := func(name, content string) {
		check.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	write("client.ts", string(testkit.ReadFile(t, filepath.Join("testdata", "generators", "client.ts"))))
	write("package.json", `{"type": "module"}`)
	write("tsconfig.json", `{"compilerOptions": {"strict": true, "noUncheckedIndexedAccess": true, "exactOptionalPropertyTypes": true,
		"noPropertyAccessFromIndexSignature": true, "module": "nodenext", "target": "es2022", "lib": ["es2022", "dom"], "types": [], "skipLibCheck": true},
		"include": ["client.ts", "contract.d.ts", "process.d.ts"]}`)
	write("process.d.ts", "declare const process: { env: Record<string, string | undefined> };\n")
	program := func(name string, args ...string) {
		cmd := node(t, filepath.Join(packages, "node_modules", ".bin", name), args...)
		cmd.Dir = folder
		output(t, cmd)
	}
	document, err := filepath.Abs(filepath.Join("..", "..", "api", "openapi", "openapi.json"))
	check.NoError(t, err)
	program("openapi-typescript", document, "--output", "contract.d.ts")
	program("tsc", "--pretty", "false")
	client := node(t, "client.js")
	client.Dir, client.Env = folder, append(os.Environ(), "API_URL=http://"+a.Address+"/v1", "API_KEY="+a.Key)
	check.Equal(t, strings.Count(output(t, client), "\n"), 9, "operations that were called")
}

// TestAClientGeneratedInGoCallsEveryOperation makes types and a client of the contract by oapi-codegen, vets and compiles them, and
// calls the nine operations of the specification.
func TestAClientGeneratedInGoCallsEveryOperation(t *testing.T) {
	t.Parallel()
	a, generated := newAPI(t), filepath.Join(t.TempDir(), "client.gen.go")
	generate := exec.CommandContext(t.Context(), "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", generated, "../../api/openapi/openapi.json")
	generate.Dir, generate.Env = filepath.Join("..", "..", "hack", "codegen"), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -trimpath")
	output(t, generate)
	client := exec.CommandContext(t.Context(), buildGo(t, map[string]string{
		"client.gen.go": string(testkit.ReadFile(t, generated)),
		"main.go":       string(testkit.ReadFile(t, filepath.Join("testdata", "generators", "client.go.txt"))),
	}))
	client.Env = append(os.Environ(), "API_URL=http://"+a.Address+"/v1", "API_KEY="+a.Key)
	output(t, client)
}
