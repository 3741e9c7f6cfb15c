package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"examprep.dev/hack/npm"
)

// copied is a module that the console uses, and the package that it comes from.
type copied struct {
	name    string // file name without .js
	source  string // path below node_modules
	types   string // declaration file that re-exports the package's types
	imports map[string]string
}

func modules() []copied {
	return []copied{
		{name: "preact", source: "preact/dist/preact.mjs", types: "export * from 'preact';\n"},
		{
			name: "hooks", source: "preact/hooks/dist/hooks.mjs", types: "export * from 'preact/hooks';\n",
			imports: map[string]string{"preact": "./preact.js"},
		},
		{name: "htm", source: "htm/dist/htm.mjs", types: "export { default } from 'htm';\n"},
	}
}

// vendor copies the modules and their licences into the console's folder.
func vendor(root string, packages npm.Dir) error {
	folder := filepath.Join(root, "server", "console", "app", "vendor")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of copied modules: %w", err)
	}
	files := map[string][]byte{}
	for _, m := range modules() {
		script, err := os.ReadFile(packages.File(m.source))
		if err != nil {
			return fmt.Errorf("read a module: %w", err)
		}
		if files[m.name+".js"], err = forBrowser(script, m.imports); err != nil {
			return fmt.Errorf("%s: %w", m.source, err)
		}
		files[m.name+".d.ts"] = []byte(m.types)
	}
	for _, name := range []string{"preact", "htm"} {
		licence, err := os.ReadFile(packages.File(name + "/LICENSE"))
		if err != nil {
			return fmt.Errorf("read a licence: %w", err)
		}
		files["LICENSE-"+name] = licence
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return fmt.Errorf("write a copy: %w", err)
		}
	}
	return nil
}

var (
	imported  = regexp.MustCompile(`(?:\bfrom|\bimport)\s*\(?["']([^"']*)["']`)
	sourceMap = regexp.MustCompile(`(?m)^//# sourceMappingURL=.*\n?`)
)

// forBrowser returns a module whose imports are relative, and which names no source map.
func forBrowser(script []byte, imports map[string]string) ([]byte, error) {
	var unknown error
	script = imported.ReplaceAllFunc(script, func(found []byte) []byte {
		name := imported.FindSubmatch(found)[1]
		relative, ok := imports[string(name)]
		if !ok {
			unknown = fmt.Errorf("it imports %q, which is not copied; add it to the list of modules in hack/console", name)
			return found
		}
		return bytes.Replace(found, name, []byte(relative), 1)
	})
	if unknown != nil {
		return nil, unknown
	}
	return append(bytes.TrimSpace(sourceMap.ReplaceAll(script, nil)), '\n'), nil
}
