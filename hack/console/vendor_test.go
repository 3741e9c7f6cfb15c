package main

import (
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
)

func TestCopiedModuleImportsRelativeNames(t *testing.T) {
	t.Parallel()
	imports := map[string]string{"preact": "./preact.js"}
	for script, want := range map[string]string{
		`import{options as n}from"preact";n();` + "\n//# sourceMappingURL=hooks.mjs.map\n": `import{options as n}from"./preact.js";n();` + "\n",
		"import 'preact';\n":         "import './preact.js';\n",
		"export default 1\n\n":       "export default 1\n",
		"const from = 'elsewhere'\n": "const from = 'elsewhere'\n",
	} {
		got, err := forBrowser([]byte(script), imports)
		check.NoError(t, err)
		check.Equal(t, string(got), want, "%s", script)
	}
}

func TestImportOfModuleThatIsNotCopiedIsRefused(t *testing.T) {
	t.Parallel()
	_, err := forBrowser([]byte(`import x from "preact/compat"`), map[string]string{"preact": "./preact.js"})
	if err == nil || !strings.Contains(err.Error(), `"preact/compat"`) {
		t.Errorf("got %v, want an error that names the import", err)
	}
}
